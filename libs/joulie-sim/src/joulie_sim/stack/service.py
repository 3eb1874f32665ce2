"""A service of Joulie as a local process: console script, environment and metrics port."""

import asyncio
import shutil
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from joulie_devcluster.errors import StartError
from joulie_devcluster.host.ports import LOOPBACK
from joulie_devcluster.host.process import ServiceProcess, base_environment
from joulie_devcluster.host.readiness import fetch, reason_not_ready, wait_until_ready


class Service(StrEnum):
    """A service. The value is the name of its console script, and of its user in the cluster and its RBAC roles."""

    OPERATOR = "joulie-operator"
    AGENT = "joulie-agent"
    EXTENDER = "joulie-extender"
    SIM = "joulie-sim"
    OUTOFBAND = "joulie-outofband"
    VEN = "joulie-ven"
    #: The node agent.
    CONTAINERS = "joulie-containers"

    @property
    def user(self) -> str:
        """Name of its user and of its roles: containers of one pod have one service account."""
        return Service.AGENT.value if self is Service.CONTAINERS else self.value

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of the console script."""
        return ("node-agent",) if self is Service.CONTAINERS else ()


class JoulieService(ServiceProcess):
    """A service that runs on this host. Its ports do not change when it is restarted.

    Args:
        service: which one.
        name: name of the process, unique in its cluster, such as `joulie-agent-1`.
        metrics_port: port of /metrics, /healthz and /readyz.
        env: its settings; `base_environment()` is added.
        log_path: path of its log.
        command: in place of its console script; None is that.
    """

    def __init__(
        self,
        service: Service,
        name: str,
        *,
        metrics_port: int,
        env: Mapping[str, str],
        log_path: Path,
        command: Sequence[str] | None = None,
    ) -> None:
        started = [str(find_script(service.value))] if command is None else command
        super().__init__(name, [*started, *service.arguments], log_path=log_path, env=base_environment() | dict(env))
        self.service = service
        self.metrics_port = metrics_port

    @property
    def url(self) -> str:
        """Base URL of the metrics and health endpoints."""
        return f"http://{LOOPBACK}:{self.metrics_port}"

    async def wait_ready(self, timeout_s: float = 30.0) -> None:
        """Wait until /readyz answers 200.

        Raises:
            StartError: the process exited, or is not ready after `timeout_s` seconds; the message contains the end of
                its log.
        """
        await wait_until_ready(self, f"{self.url}/readyz", timeout_s=timeout_s)

    async def reason_not_ready(self) -> str | None:
        """Return None if /readyz answers 200, else the reason."""
        return await asyncio.to_thread(reason_not_ready, f"{self.url}/readyz")

    async def metrics(self) -> str:
        """Return the text of /metrics.

        Raises:
            OSError: the process does not respond.
        """
        _, body = await asyncio.to_thread(fetch, f"{self.url}/metrics")
        return body


def find_script(name: str) -> Path:
    """Return the path of a console script, from this environment or else from PATH.

    Raises:
        StartError: the script is not installed.
    """
    script = Path(sys.executable).with_name(name)
    if script.exists():
        return script
    found = shutil.which(name)
    if found is None:
        raise StartError(f"{name} is not installed: install the package that provides it in this environment")
    return Path(found)
