"""A Prometheus of a test's own, and questions to it."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from joulie_devcluster.host.ports import LOOPBACK, free_port
from joulie_devcluster.host.process import ServiceProcess, base_environment

PROMETHEUS: Final = shutil.which("prometheus")
needs_prometheus: Final = pytest.mark.skipif(
    PROMETHEUS is None, reason="no prometheus on the path (Debian: apt-get install prometheus)"
)
_READY_S: Final = 60.0


class PrometheusServer:
    """A Prometheus that scrapes ports of the loopback interface once a second, by job.

    Args:
        directory: of its configuration and its data.
        targets: ports by job.
        rules: rule files.
        labels: labels of all targets, as a cluster's service discovery sets them.
        honor_labels: whether labels of series come before those of their target.
    """

    def __init__(
        self,
        directory: Path,
        targets: Mapping[str, Sequence[int]],
        rules: Sequence[Path] = (),
        *,
        labels: Mapping[str, str] | None = None,
        honor_labels: bool = True,
    ) -> None:
        assert PROMETHEUS is not None
        address = f"{LOOPBACK}:{free_port()}"
        self.url = f"http://{address}"
        known = dict(labels or {})
        jobs = [
            f"  - job_name: {job}\n    honor_labels: {'true' if honor_labels else 'false'}\n"
            f"    static_configs: [{{targets: {[f'{LOOPBACK}:{port}' for port in ports]}, labels: {known}}}]\n"
            for job, ports in targets.items()
        ]
        files = [f"  - {path}\n" for path in rules]
        config = directory / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
            + ("rule_files:\n" if files else "")
            + "".join(files)
            + "scrape_configs:\n"
            + "".join(jobs)
        )
        argv = [
            PROMETHEUS,
            f"--config.file={config}",
            f"--storage.tsdb.path={directory / 'tsdb'}",
            f"--web.listen-address={address}",
        ]
        log = directory / "prometheus.log"
        self.process = ServiceProcess("prometheus", argv, log_path=log, env=base_environment())

    async def start(self) -> None:
        """Start it and wait until it answers."""
        await self.process.start()
        await self.process.wait_for_log("Server is ready", _READY_S)

    async def stop(self) -> None:
        """Stop it."""
        await self.process.stop()

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the samples of an expression now; AssertionError where Prometheus refuses it."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.url}/api/v1/query", params={"query": expression}) as answer,
        ):
            body = await answer.json()
        assert body["status"] == "success", (expression, body)
        return list(body["data"]["result"])
