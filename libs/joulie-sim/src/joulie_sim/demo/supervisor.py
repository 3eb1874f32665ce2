"""Restarts of the services of a demo, as Kubernetes would do them.

A service may exit on purpose: an operator that could not renew its lease in time exits, so that never two of them act
as leader.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from joulie_devcluster.errors import StartError
from joulie_devcluster.host.process import ServiceProcess
from joulie_devcluster.host.progress import Reporter

#: More restarts of a service than this are a failure of the demo, which the table would hide.
_RESTARTS: Final = 3


class Supervisor:
    """Restarts services that exited; `restarts` counts by process name."""

    def __init__(
        self, services: Iterable[ServiceProcess], reporter: Reporter, *, check_cluster: Callable[[], None] | None = None
    ) -> None:
        self.restarts: Counter[str] = Counter()
        self._services = tuple(services)
        self._reporter = reporter
        self._check_cluster = check_cluster

    async def check(self) -> None:
        """Restart services that have exited.

        Raises:
            StartError: the control plane failed, or a service exits too often.
        """
        if self._check_cluster is not None:
            self._check_cluster()
        for process in self._services:
            if process.running:
                continue
            self.restarts[process.name] += 1
            if self.restarts[process.name] > _RESTARTS:
                raise StartError(f"{process.name} exited with {process.returncode}; end of log:\n{process.log_tail()}")
            self._reporter.note(f"{process.name} exited with {process.returncode}, restarting it")
            await process.start()
