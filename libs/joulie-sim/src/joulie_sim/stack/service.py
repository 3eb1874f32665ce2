"""One of Joulie's services as a local process: its console script, its environment, its metrics port."""

import asyncio
import shutil
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from joulie_devcluster.errors import StartError
from joulie_devcluster.host.ports import LOOPBACK
from joulie_devcluster.host.process import ServiceProcess, base_environment
from joulie_devcluster.host.readiness import fetch, reason_not_ready, wait_until_ready


class Service(StrEnum):
    """A service: the name of its console script, of its user in the cluster and of its RBAC roles."""

    OPERATOR = "joulie-operator"
    AGENT = "joulie-agent"
    EXTENDER = "joulie-extender"
    SIM = "joulie-sim"


class JoulieService(ServiceProcess):
    """A service that runs on this machine. Its ports stay the same over restarts.

    Args:
        service: which one.
        name: unique among the processes of a cluster, such as `joulie-agent-1`.
        metrics_port: where it serves /metrics, /healthz and /readyz.
        env: its settings; `base_environment()` is added.
        log_path: its log.
    """

    def __init__(
        self, service: Service, name: str, *, metrics_port: int, env: Mapping[str, str], log_path: Path
    ) -> None:
        super().__init__(name, [str(find_script(service.value))], log_path=log_path, env=base_environment() | dict(env))
        self.service = service
        self.metrics_port = metrics_port

    @property
    def url(self) -> str:
        """Base URL of its metrics and health endpoints."""
        return f"http://{LOOPBACK}:{self.metrics_port}"

    async def wait_ready(self, timeout_s: float = 30.0) -> None:
        """Wait until /readyz answers 200; StartError with the end of its log where it does not, or where it ends."""
        await wait_until_ready(self, f"{self.url}/readyz", timeout_s=timeout_s)

    async def reason_not_ready(self) -> str | None:
        """None when /readyz answers 200, else why not."""
        return await asyncio.to_thread(reason_not_ready, f"{self.url}/readyz")

    async def metrics(self) -> str:
        """The text of /metrics. OSError where nobody answers."""
        _, body = await asyncio.to_thread(fetch, f"{self.url}/metrics")
        return body


def find_script(name: str) -> Path:
    """A console script of this environment, or on PATH; StartError where it is not installed."""
    beside = Path(sys.executable).with_name(name)
    if beside.exists():
        return beside
    found = shutil.which(name)
    if found is None:
        raise StartError(f"{name} is not installed: install the package that provides it beside joulie-devcluster")
    return Path(found)
