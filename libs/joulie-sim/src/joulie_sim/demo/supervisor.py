"""Restarts of the services of a demo, as Kubernetes would do them.

A service may exit on purpose: an operator that could not renew its lease in time exits, so that never two of them act
as leader.
"""

from collections import Counter
from typing import Final

from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.errors import StartError
from joulie_devcluster.host.progress import Reporter
from joulie_sim.stack.stack import JoulieStack

#: More restarts of a service than this are a failure of the demo, which the table would hide.
_RESTARTS: Final = 3


class Supervisor:
    """Restarts services that exited; `restarts` counts by process name."""

    def __init__(self, cluster: DevCluster, stack: JoulieStack, reporter: Reporter) -> None:
        self.restarts: Counter[str] = Counter()
        self._cluster = cluster
        self._stack = stack
        self._reporter = reporter

    async def check(self) -> None:
        """Restart services that have exited.

        Raises:
            StartError: the control plane failed, or a service exits too often.
        """
        self._cluster.check()
        for process in self._stack.services.values():
            if process.running:
                continue
            self.restarts[process.name] += 1
            if self.restarts[process.name] > _RESTARTS:
                raise StartError(f"{process.name} exited with {process.returncode}; end of log:\n{process.log_tail()}")
            self._reporter.note(f"{process.name} exited with {process.returncode}, restarting it")
            await process.start()
