"""The resource manager under test, as a process, and the machine that it sees."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from joulie_devcluster.host.usage import peak_mib
from joulie_testing.core.machines import MachineShape

GIB = 1 << 30
#: Two sockets, two NUMA nodes each, 32 cores of two threads per node.
MACHINE = MachineShape(
    packages=2, nodes_per_die=2, cores_per_node=32, threads_per_core=2, cores_per_l3=8, memory_per_node_bytes=256 * GIB
).topology()

_RESERVED = {"reservedResources": {"cpu": "1"}}
SPECS: dict[str, tuple[str, dict[str, Any]]] = {
    "template": ("TemplatePolicy", _RESERVED),
    "topology-aware": ("TopologyAwarePolicy", _RESERVED),
    "balloons": (
        "BalloonsPolicy",
        _RESERVED
        | {
            "balloonTypes": [
                {
                    "name": "dedicated",
                    "preferNewBalloons": True,
                    "matchExpressions": [{"key": "pod/qosclass", "operator": "Equals", "values": ["Guaranteed"]}],
                },
                {"name": "shared", "namespaces": ["*"], "minBalloons": 4, "minCPUs": 4, "shareIdleCPUsInSame": "numa"},
            ]
        },
    ),
}


class Manager:
    """A running resource manager."""

    def __init__(self, argv: list[str], env: dict[str, str], log: Path) -> None:
        self._argv = argv
        self._env = env
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    @classmethod
    async def start(cls, policy: str, host: Path, socket: Path, directory: Path) -> "Manager":
        """Start it in a directory of its own."""
        directory.mkdir()  # noqa: ASYNC240 - nothing is measured yet
        kind, spec = SPECS[policy]
        document = {"apiVersion": "joulie.io/v1alpha1", "kind": kind, "metadata": {"name": "default"}, "spec": spec}
        config = directory / "policy.json"
        config.write_text(json.dumps(document))
        options = {
            "policy": policy,
            "config-file": config,
            "nri-socket": socket,
            "host-root": host,
            "state-dir": directory / "state",
            "metrics-addr": "127.0.0.1:0",
            "log-level": "warning",
        }
        argv = [
            sys.executable,
            "-m",
            "joulie_containers",
            "manager",
            *(f"--{key}={value}" for key, value in options.items()),
        ]
        manager = cls(argv, os.environ | {"NODE_NAME": "bench"}, directory / "log")
        await manager.restart()
        return manager

    async def restart(self) -> None:
        """Start the process."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(*self._argv, env=self._env, stdout=log, stderr=log)

    async def kill(self) -> None:
        """Kill the process as a kernel without memory would."""
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    def resident_mib(self) -> float:
        """Return the largest resident memory so far; RuntimeError where it has ended."""
        assert self._process is not None
        if self._process.returncode is not None:
            raise RuntimeError(f"the resource manager has ended: {self._log.read_text()[-2_000:]}")
        return peak_mib(self._process.pid)
