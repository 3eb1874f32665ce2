"""The processes of an agent's pod that limit GPUs by class, over GPUs in a file."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
from services.agent.tests.class_limits.forked_process import ForkedProcess, ForkingParent
from services.agent.tests.class_limits.stub_gpus import StubGpus

from joulie_agent.class_limits.enforcement import LEASE_S
from joulie_devcluster.host.ports import LOOPBACK, free_port
from joulie_devcluster.host.process import ServiceProcess, base_environment
from joulie_testing.agent.fake_sysfs import FakeMachine
from joulie_testing.agent.machine_spec import PLATFORMS

ACTUATOR, HOLDERS, AGENT, START_HOOK = "actuator", "holders", "agent", "start-hook"
#: As the agent, but for times that keep limits off for a while, and for the lease, of which the renewals are a part: a
#: hundred hand-overs would take half an hour.
_AGENT = """
from joulie_core.class_caps import enforced_limit, held_clock
from joulie_agent.class_limits import enforcement
enforced_limit.SETTLED_S, enforcement.HELD_BACK_S, held_clock.LEAST_SAMPLES = 0.5, 1.0, 3
enforcement.LEASE_S, enforcement.RENEW_S = {lease_s}, {lease_s} * enforcement.RENEW_S / enforcement.LEASE_S
from joulie_agent.__main__ import main
main()
"""


class AgentProcesses:
    """Actuator, holders, start hook and agent as processes.

    Args:
        directory: of their files.
        gpus: the GPUs.
        node: name of the node.
        kubeconfig: of the agent.
        kubelet: socket of the kubelet's pod-resources API.
        runtime: socket of the container runtime; None: no start hook runs, so that limits are lifted by polling.
        shortened: whether limits stay off for a shorter time than those of a release do.
        lease_s: of the limits, in seconds, where they are shortened.
        parent: what all but the actuator are forked from; None: each is started anew.
        interval: of the agent's reconciliations.
    """

    def __init__(
        self,
        directory: Path,
        gpus: StubGpus,
        *,
        node: str,
        kubeconfig: Path,
        kubelet: Path,
        runtime: Path | None = None,
        shortened: bool = True,
        lease_s: float = LEASE_S,
        parent: ForkingParent | None = None,
        interval: str = "200ms",
    ) -> None:
        self._directory, self._parent = directory, parent
        self.state = directory / "journals"
        self._ports: dict[str, int] = {}
        self.running: dict[str, ServiceProcess] = {}
        machine = FakeMachine(directory / "machine", PLATFORMS["xeon-2s"])
        self.sys = machine.sys
        sockets = {name: str(directory / f"{name}.sock") for name in (ACTUATOR, HOLDERS, START_HOOK)}
        module = [sys.executable, "-m"]
        hook = {} if runtime is None else {"START_HOOK_SOCKET": sockets[START_HOOK]}
        files = {
            "HOST_SYS_ROOT": str(machine.sys),
            "HOST_PROC_ROOT": str(machine.proc),
            "STATE_DIR": str(self.state),
            "ACTUATOR_SOCKET": sockets[ACTUATOR],
            "JOULIE_STUB_GPU_STATE": str(gpus.path),
            "LD_LIBRARY_PATH": str(gpus.library),
        }
        listed = {"KUBELET_SOCKET": str(kubelet), "HOLDERS_SOCKET": sockets[HOLDERS]}
        # The longest deadline that a runtime with its default of 2 s allows: other tests take the CPUs, too.
        asked = {"NRI_SOCKET": str(runtime), "START_DEADLINE": "1s", "LOG_LEVEL": "debug", "LOG_FORMAT": "json", **hook}
        settings = {
            "KUBECONFIG": str(kubeconfig),
            "AGENT_MODE": "daemonset",
            "NODE_NAME": node,
            "RECONCILE_INTERVAL": interval,
            "ACTUATOR_SOCKET": sockets[ACTUATOR],
            "HOLDERS_SOCKET": sockets[HOLDERS],
            "CLASS_LIMITS": "Enforce",
            "TELEMETRY_CPU_CONTROL": "none",
            **hook,
        }
        self._add(ACTUATOR, [*module, "joulie_actuator", ACTUATOR], files)
        self._add(HOLDERS, [*module, "joulie_agent", HOLDERS], listed)
        if runtime is not None:
            self._add(START_HOOK, [*module, "joulie_containers", START_HOOK], asked)
        agent = [sys.executable, "-c", _AGENT.format(lease_s=lease_s)] if shortened else [*module, "joulie_agent"]
        self._add(AGENT, agent, settings)

    def _add(self, name: str, argv: Sequence[str], env: dict[str, str]) -> None:
        port = self._ports[name] = free_port()
        listening = {} if name == ACTUATOR else {"METRICS_ADDR": f"{LOOPBACK}:{port}"}
        log, whole = self._directory / f"{name}.log", base_environment() | env | listening
        if self._parent is None or name == ACTUATOR:
            # The library of the driver is found by the environment that a process begins with.
            self.running[name] = ServiceProcess(name, argv, log_path=log, env=whole)
        else:
            self.running[name] = ForkedProcess(name, argv, parent=self._parent, log_path=log, env=whole)

    async def start(self) -> None:
        """Start all of them."""
        for process in self.running.values():
            await process.start()

    async def stop(self) -> None:
        """Stop all of them."""
        for process in self.running.values():
            await process.stop()

    async def series(self, name: str) -> dict[str, float]:
        """Return the series of Joulie that a process serves."""
        url = f"http://{LOOPBACK}:{self._ports[name]}/metrics"
        async with aiohttp.ClientSession() as http, http.get(url) as reply:
            lines = [line for line in (await reply.text()).splitlines() if line.startswith("joulie_")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    def waits_ms(self, pods: str) -> list[float]:
        """Return how long the containers of pods whose name begins so have waited for the start hook."""
        return [each["waited_ms"] for each in self._created(pods)]

    def unanswered(self, pods: str) -> set[str]:
        """Return the pods of them whose container was created without an answer, when the deadline was over."""
        return {each["pod"] for each in self._created(pods) if each["outcome"] != "answered"}

    def _created(self, pods: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.running[START_HOOK].log().splitlines() if "waited_ms" in line]
        return [each for each in lines if each["pod"].startswith(pods)]
