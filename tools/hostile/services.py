"""The services under attack, as processes: whether each is alive, answers its probe, and keeps to its memory."""

import asyncio
import http.client
import re
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml
from tools.hostile.documents import AGENT_LABEL

from joulie_core.quantity import parse_quantity
from joulie_devcluster.host.ports import LOOPBACK, free_port
from joulie_devcluster.host.usage import cpu_s, peak_mib
from joulie_sim.stack.service import JoulieService, Service
from joulie_sim.stack.stack import NAMESPACE

ROOT: Final = Path(__file__).resolve().parents[2]
_VALUES: Final = ROOT / "helm/joulie/values.yaml"
#: The longest time without an answer to /healthz, which nothing may delay.
HEALTH_S: Final = 1.0
#: A slow answer counts where the service computed for so long meanwhile, since a busy machine delays it as well; and
#: where it took so long in any case.
_COMPUTED_S, _HANGING_S = 0.7, 5.0
_PROBE_S: Final = 0.2
_PER_MIB: Final = 1 << 20
_SAMPLE: Final = re.compile(r"^(joulie_[a-z_]+)(\{[^\n]*\})? ([0-9.e+]+)$", re.MULTILINE)
_START_S: Final = 90.0

#: Names of the services without the project's.
SERVICES: Final = ("operator", "agent", "extender", "outofband")
#: A machine that is busy must not end a process for its lease.
_LEASE: Final = {"LEASE_DURATION": "120s", "LEASE_RENEW_DEADLINE": "100s", "LEASE_RETRY_PERIOD": "500ms"}


def settings(backends: str, extender_port: int) -> dict[Service, dict[str, str]]:
    """Return the settings of each service: short intervals, every source of readings in use."""
    telemetry, control = f"{backends}/telemetry/{{node}}", f"{backends}/control/{{node}}"
    return {
        Service.OPERATOR: {
            "STATIC_HP_FRAC": "0",
            "PLAN_DEBOUNCE": "20ms",
            "DOWNGRADE_SETTLE": "0s",
            "RECONCILE_INTERVAL": "5s",
            "TWIN_INTERVAL": "500ms",
            "TWIN_SETTLE": "0s",
            "SLEEP_ENABLED": "true",
            "SLEEP_INTERVAL": "500ms",
            "POWER_DOMAINS": "Enforce",
            "OPERATOR_NODE_POWER_SOURCE": "http",
            "OPERATOR_NODE_POWER_HTTP_ENDPOINT": f"{backends}/power/{{node}}",
            "OPERATOR_NODE_POWER_POLL_INTERVAL": "500ms",
            "ENABLE_FACILITY_METRICS": "true",
            "FACILITY_PROMETHEUS_ADDRESS": backends,
            "FACILITY_POLL_INTERVAL": "300ms",
            "FACILITY_RACK_POWER_METRIC_TEMPLATE": "rack_watts{rack='{rack}'}",
            **_LEASE,
        },
        Service.AGENT: {
            "AGENT_MODE": "pool",
            "POOL_NODE_SELECTOR": f"{AGENT_LABEL}=true",
            "RECONCILE_INTERVAL": "500ms",
            "TELEMETRY_CPU_SOURCE": "http",
            "TELEMETRY_CPU_HTTP_ENDPOINT": telemetry,
            "TELEMETRY_CPU_CONTROL": "http",
            "TELEMETRY_CPU_CONTROL_HTTP_ENDPOINT": control,
            "TELEMETRY_GPU_CONTROL": "http",
            "TELEMETRY_GPU_CONTROL_HTTP_ENDPOINT": control,
        },
        Service.EXTENDER: {
            "EXTENDER_ADDR": f"{LOOPBACK}:{extender_port}",
            "ASSUMED_WINDOW": "0s",
            "COUNT_IN_FLIGHT": "false",
        },
        Service.OUTOFBAND: {
            "BMC_POLL_INTERVAL": "20s",
            "BMC_TRANSITION_INTERVAL": "1s",
            "BMC_REQUEST_TIMEOUT": "5s",
            "BMC_PASS_TIMEOUT": "20s",
            "BMC_CREDENTIALS_RETRY": "1s",
            **_LEASE,
        },
    }


def memory_limits_mib() -> dict[Service, float]:
    """Return the limits of the chart."""
    values = yaml.safe_load(_VALUES.read_text())
    keys = {
        Service.OPERATOR: "operator",
        Service.AGENT: "agent",
        Service.EXTENDER: "extender",
        Service.OUTOFBAND: "outofband",
    }
    return {each: parse_quantity(values[key]["resources"]["limits"]["memory"]) / _PER_MIB for each, key in keys.items()}


class Process:
    """One service, restarted only when it has ended."""

    def __init__(self, service: Service, env: Mapping[str, str], directory: Path, *, without: str = "") -> None:
        self.service = service
        self.limit_mib = memory_limits_mib()[service]
        port = free_port()
        own = {
            "METRICS_ADDR": f"{LOOPBACK}:{port}",
            "LOG_FORMAT": "json",
            "POD_NAMESPACE": NAMESPACE,
            "POD_NAME": service,
        }
        log = directory / f"{service}.log"
        self._process = JoulieService(service, service, metrics_port=port, env={**own, **env}, log_path=log)
        if without:
            # The same command with one bulkhead patched away.
            module = service.replace("-", "_")
            self._process.argv = (sys.executable, "-m", "tools.hostile.without", without, module)
            self._process.cwd = ROOT
        self._pid = 0
        self._probe = _Probe(port)

    @property
    def name(self) -> str:
        """Name without the project's."""
        return self.service.removeprefix("joulie-")

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.running

    async def start(self) -> None:
        """Start it and wait until it is ready."""
        if self._process.running:
            return
        await self._process.start()
        await self._process.wait_ready(_START_S)
        self._pid = self._process.pid
        self._probe.start(self._pid)

    async def stop(self) -> None:
        """Stop it."""
        self._probe.stop()
        if self._process.running:
            await self._process.stop()

    async def restart(self) -> None:
        """Stop it, however it is, and start it again."""
        await self.stop()
        await self.start()

    def problems(self) -> list[str]:
        """Return what must not be: ended, slow, too large."""
        found = []
        if not self._process.running:
            return [f"ended with {self._process.returncode}: {self._last_error()}"]
        if (slowest_s := self._probe.take()) > HEALTH_S:
            found.append(f"/healthz took {slowest_s:.1f} s")
        if (peak := peak_mib(self._pid)) > self.limit_mib:
            found.append(f"{peak:.0f} MiB of memory, the chart's limit is {self.limit_mib:.0f} MiB")
        return found

    @property
    def peak_mib(self) -> float:
        """The most memory that it has had; 0 where it has ended."""
        return peak_mib(self._pid) if self._process.running else 0.0

    async def counters(self) -> dict[str, float]:
        """Return its series of contained failures."""
        try:
            text = await self._process.metrics()
        except OSError:
            return {}
        wanted = ("joulie_internal_errors_total", "joulie_invalid_input_total", "joulie_objects_set_aside")
        return {f"{name}{labels}": float(value) for name, labels, value in _SAMPLE.findall(text) if name in wanted}

    def log_lines(self, *parts: str) -> list[str]:
        """Return the newest lines of the log that have one of these parts."""
        return [line[:1500] for line in self._process.log_of_run().splitlines() if any(part in line for part in parts)][
            -3:
        ]

    def _last_error(self) -> str:
        lines = [line for line in self._process.log_of_run().splitlines() if '"error"' in line or "Error" in line]
        return " ".join(lines[-2:])[-1200:]


class _Probe:
    """Requests /healthz all the time, in a thread, and keeps the slowest answer."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._pid = 0
        self._slowest_s = 0.0
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, pid: int) -> None:
        """Begin."""
        self._pid = pid
        self._stopped = threading.Event()
        self._slowest_s = 0.0
        self._thread = threading.Thread(target=self._run, args=(self._stopped,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stopped.set()

    def take(self) -> float:
        """Return the slowest answer since the last call, in seconds."""
        slowest_s, self._slowest_s = self._slowest_s, 0.0
        return slowest_s

    def _cpu_s(self) -> float:
        try:
            return cpu_s(self._pid)
        except (OSError, IndexError):
            return 0.0

    def _run(self, stopped: threading.Event) -> None:
        due = time.monotonic()
        while not stopped.is_set():
            # A machine that is busy delays this thread as well, which is no fault of the service.
            lag_s = time.monotonic() - due
            started, cpu_before = time.monotonic(), self._cpu_s()
            try:
                connection = http.client.HTTPConnection(LOOPBACK, self._port, timeout=10)
                connection.request("GET", "/healthz")
                connection.getresponse().read()
                connection.close()
            except OSError:
                if stopped.is_set():
                    return
            took_s = time.monotonic() - started - 2 * lag_s
            if self._cpu_s() - cpu_before >= _COMPUTED_S or took_s > _HANGING_S:
                self._slowest_s = max(self._slowest_s, took_s)
            due = time.monotonic() + _PROBE_S
            stopped.wait(_PROBE_S)


async def start_all(processes: Mapping[Service, Process]) -> None:
    """Start those that do not run."""
    await asyncio.gather(*(each.start() for each in processes.values()))
