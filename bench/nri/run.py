"""The resource manager on a node of 256 CPUs with 500 containers: times, memory, and the quality of placements.

    just bench nri                             every policy, the table against its limits
    just bench nri --policy balloons           one policy
    just bench nri --containers 110            another number of containers

The resource manager runs unmodified, against the adaptation package of containerd and CRI-O (the reference runtime),
on an invented machine of two sockets, 128 cores and four NUMA nodes. Times are those that the runtime waits:

    synchronize   all containers are there when the plugin registers, and none has a placement
    restart       the plugin is killed and started again; "moved" counts containers whose CPUs or memory nodes change
    create        one container after another on an empty node, then 200 ends and creations

Quality is counted over containers of Guaranteed pods, created one after another on an empty node:

    extra nodes     NUMA nodes beyond the fewest that the CPUs fit on
    extra packages  the same for packages
    split cores     cores that containers with different CPUs are on
    remote memory   containers with a memory node that none of their CPUs is on
    taken           CPUs taken from them while they run, by creations and ends of others

Exit code 1 if a limit is missed.
"""

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manager import MACHINE, Manager
from quality import Quality, quality
from workload import Workload, make_workload

from joulie_core.containers.idset import IdSet
from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.nri_runtime import ReferenceNriRuntime, reference_nri_runtime
from joulie_testing.agent.host_files import put_host

POLICIES = ("template", "topology-aware", "balloons")
CHURN = 200
SYNCHRONIZE_MS, P50_MS, P99_MS, RESIDENT_MIB = 1_000.0, 5.0, 20.0, 100.0


@dataclass(frozen=True)
class Figures:
    """Measurements with one policy."""

    synchronize_ms: float
    restart_ms: float
    moved: int
    create_ms: Sequence[float]
    quality: Quality
    taken: int
    resident_mib: float

    @property
    def p50_ms(self) -> float:
        """Half of the creations took at most this."""
        return statistics.median(self.create_ms)

    @property
    def p99_ms(self) -> float:
        """99 % of the creations took at most this."""
        return statistics.quantiles(self.create_ms, n=100)[98]

    @property
    def missed(self) -> list[str]:
        """The limits that are not met."""
        checks = {
            f"synchronize {SYNCHRONIZE_MS:.0f} ms": max(self.synchronize_ms, self.restart_ms) <= SYNCHRONIZE_MS,
            f"create p50 {P50_MS:.0f} ms": self.p50_ms <= P50_MS,
            f"create p99 {P99_MS:.0f} ms": self.p99_ms <= P99_MS,
            "none moved by a restart": self.moved == 0,
            f"resident {RESIDENT_MIB:.0f} MiB": self.resident_mib <= RESIDENT_MIB,
        }
        return [name for name, met in checks.items() if not met]


async def measure(policy: str, containers: int, seed: int, directory: Path, binary: Path) -> Figures:
    """Run one policy on an empty and on a full node."""
    host = directory / "host"
    put_host(host, MACHINE)
    workload = make_workload(containers, seed)
    socket = directory / "nri.sock"
    async with reference_nri_runtime(binary, directory / "runtime.log", socket=socket) as runtime:
        await runtime.command("add", pods=workload.pods, containers=workload.running)
        manager = await Manager.start(policy, host, socket, directory / "full")
        synchronized = await runtime.command("await")
        before = await runtime.containers()
        await manager.kill()
        await manager.restart()
        again = await runtime.command("await")
        after = await runtime.containers()
        full_mib = manager.resident_mib()
        await manager.kill()
    async with reference_nri_runtime(binary, directory / "runtime.log", socket=socket) as runtime:
        manager = await Manager.start(policy, host, socket, directory / "empty")
        await runtime.command("await")
        times, taken, placed = await create_all(runtime, workload)
        churned, more = await churn(runtime, workload, seed)
        empty_mib = manager.resident_mib()
        await manager.kill()
    return Figures(
        synchronize_ms=synchronized["ms"],
        restart_ms=again["ms"],
        moved=sum(placement(before[each]) != placement(after[each]) for each in before),
        create_ms=times + churned,
        quality=quality(MACHINE, [placed[each] for each in workload.guaranteed]),
        taken=taken + more,
        resident_mib=max(full_mib, empty_mib),
    )


async def create_all(
    runtime: ReferenceNriRuntime, workload: Workload
) -> tuple[list[float], int, dict[str, tuple[str, str]]]:
    """Create all containers; returns milliseconds, CPUs taken from others, and placements at the end."""
    times: list[float] = []
    taken = 0
    for pod, container in zip(workload.pods, workload.created, strict=True):
        await runtime.command("run", pod=pod)
        milliseconds, lost = await create(runtime, container, workload)
        times.append(milliseconds)
        taken += lost
    found = await runtime.containers()
    return times, taken, {name: placement(each) for name, each in found.items()}


async def create(runtime: ReferenceNriRuntime, container: dict[str, Any], workload: Workload) -> tuple[float, int]:
    """Create and start a container; returns milliseconds and CPUs taken from others."""
    before = await runtime.containers()
    reply = await runtime.command("create", container=container)
    await runtime.command("start", id=container["id"])
    return reply["ms"], lost_cpus(before, await runtime.containers(), workload)


async def churn(runtime: ReferenceNriRuntime, workload: Workload, seed: int) -> tuple[list[float], int]:
    """End containers at random and create them again; returns milliseconds, and CPUs taken from others."""
    chance = random.Random(seed)
    times: list[float] = []
    taken = 0
    for number in range(CHURN):
        old = chance.randrange(len(workload.created))
        container = dict(workload.created[old])
        before = await runtime.containers()
        await runtime.command("stop", id=container["id"])
        await runtime.command("remove", id=container["id"])
        taken += lost_cpus(before, await runtime.containers(), workload)
        container["id"] = f"again-{number}"
        workload.created[old] = container
        milliseconds, lost = await create(runtime, container, workload)
        times.append(milliseconds)
        taken += lost
    return times, taken


def placement(container: dict[str, Any]) -> tuple[str, str]:
    """Return the CPUs and memory nodes of a container."""
    cpu = container["linux"]["resources"].get("cpu", {})
    return cpu.get("cpus", ""), cpu.get("mems", "")


def lost_cpus(before: dict[str, Any], after: dict[str, Any], workload: Workload) -> int:
    """Return how many CPUs were taken from Guaranteed containers that run on."""
    return sum(
        len(IdSet.parse(placement(before[each])[0]) - IdSet.parse(placement(after[each])[0]))
        for each in workload.guaranteed
        if each in before and each in after
    )


HEADER = (
    f"{'':16}{'synchronize':>12}{'restart':>9}{'moved':>7}{'create p50':>12}{'p99':>8}{'resident':>10}"
    f"   extra: nodes packages  split  remote   taken"
)


def row(policy: str, figures: Figures) -> str:
    """Return a line of the table."""
    missed = f"   MISSED: {', '.join(figures.missed)}" if figures.missed else ""
    return (
        f"{policy:16}{figures.synchronize_ms:9.0f} ms{figures.restart_ms:6.0f} ms{figures.moved:7}"
        f"{figures.p50_ms:9.2f} ms{figures.p99_ms:5.1f} ms{figures.resident_mib:6.0f} MiB"
        f"        {figures.quality} {figures.taken:7}{missed}"
    )


def main() -> int:
    """Run the bench; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", choices=POLICIES, help="one policy only")
    parser.add_argument("--containers", type=int, default=500, help="containers on the node")
    parser.add_argument("--seed", type=int, default=1, help="of the workload")
    options = parser.parse_args()
    binary = lookup.ensure((Binary.NRI_RUNTIME_0_12,))[Binary.NRI_RUNTIME_0_12]
    print(HEADER)
    met = True
    for policy in (options.policy,) if options.policy else POLICIES:
        with tempfile.TemporaryDirectory(prefix="joulie-bench-nri-") as directory:
            figures = asyncio.run(measure(policy, options.containers, options.seed, Path(directory), binary))
        print(row(policy, figures), flush=True)
        met &= not figures.missed
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
