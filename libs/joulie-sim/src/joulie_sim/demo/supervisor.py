"""Restarts services of a demo that exit, as Kubernetes does.

A service may exit on purpose: an operator that could not renew its lease in time stops, so that it does not run beside
a second leader.
"""

from collections import Counter
from typing import Final

from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.errors import StartError
from joulie_devcluster.host.progress import Reporter
from joulie_sim.stack.stack import JoulieStack

#: A service that ends more often than this is broken, and the table would hide it.
_RESTARTS: Final = 3


class Supervisor:
    """Restarts services that ended; `restarts` counts by process name."""

    def __init__(self, cluster: DevCluster, stack: JoulieStack, reporter: Reporter) -> None:
        self.restarts: Counter[str] = Counter()
        self._cluster = cluster
        self._stack = stack
        self._reporter = reporter

    async def check(self) -> None:
        """Restart what has ended. Raises StartError for the control plane, or for a service that ends too often."""
        self._cluster.check()
        for process in self._stack.services.values():
            if process.running:
                continue
            self.restarts[process.name] += 1
            if self.restarts[process.name] > _RESTARTS:
                raise StartError(f"{process.name} ended with {process.returncode}; its log ends:\n{process.log_tail()}")
            self._reporter.note(f"{process.name} ended with {process.returncode}, starting it again")
            await process.start()
