"""Effect of Joulie on kube-scheduler's pods per second and on watts, on a real control plane.

    just bench scheduler                    1,000 KWOK nodes, 1,000 pods a wave, 3 waves of each kind
    just bench scheduler --nodes 5000       takes a machine with some cores

Four schedulers take turns on the same cluster: without and with the extender, each with kube-scheduler's default
sample of the nodes and with all of them (`percentageOfNodesToScore: 100`). Every wave is the same mix of pods on a
cluster that is empty and measured to be. Rates come from this run and this machine; the ratio is what travels. CPU per
pod does not see what else the machine does.
"""

import argparse
import asyncio
import statistics
import sys
from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from system import System, cpu_s, make_wave, run_system

from joulie_devcluster.control_plane.scheduler_config import SchedulerSettings

OUT = Path("out")
#: kube-scheduler's default: it stops once it has found a share of the nodes, which it chooses by the cluster's size.
SAMPLE = 0
ALL = 100


@dataclass(frozen=True)
class Kind:
    """Configuration of the scheduler."""

    extender: bool
    percentage: int

    @property
    def title(self) -> str:
        """Name in tables."""
        return f"{'with' if self.extender else 'without'}, {'all nodes' if self.percentage else 'sample'}"


KINDS = tuple(Kind(extender, percentage) for extender, percentage in product((False, True), (SAMPLE, ALL)))


@dataclass
class Results:
    """Results of the waves of one kind."""

    pods_per_s: list[float] = field(default_factory=list)
    #: What the wave's pods add: by the choice of a CPU, and by that of a GPU, whose models differ by a factor of two.
    cpu_watts: list[float] = field(default_factory=list)
    gpu_watts: list[float] = field(default_factory=list)
    #: Lowest percent of a node's cap that was left, of all nodes.
    headroom_pct: list[float] = field(default_factory=list)
    #: Performance pods on nodes that are eco.
    misplaced: list[float] = field(default_factory=list)
    scheduler_ms: list[float] = field(default_factory=list)
    extender_ms: list[float] = field(default_factory=list)


async def run_wave(system: System, kind: Kind, wave: list[dict[str, Any]], nodes: int) -> dict[str, float]:
    """Schedule one wave and return its results."""
    pods = len(wave)
    await system.wait_settled(nodes)
    classes = {node["nodeName"]: node["schedulableClass"] for node in await system.scoring()}
    idle_cpu_watts, idle_gpu_watts = await system.watts(pods=0)
    extender_cpu_s = cpu_s(system.stack.extender)
    settings = SchedulerSettings(percentage_of_nodes_to_score=kind.percentage)
    bound_at = await system.schedule(wave, settings, extender=kind.extender)
    # From the tenth part to the last but one: the start of a scheduler and its last binding are not its rate.
    first, last = len(bound_at) // 10, len(bound_at) * 9 // 10
    placed = system.placements()
    cpu_watts, gpu_watts = await system.watts(pods=pods)
    figures = {
        "pods_per_s": (last - first) / (bound_at[last] - bound_at[first]),
        # A scheduler of its own for each wave: what it used since its start, reading the cluster included.
        "scheduler_ms": cpu_s(system.scheduler) / pods * 1e3,
        "extender_ms": (cpu_s(system.stack.extender) - extender_cpu_s) / pods * 1e3,
        "cpu_watts": cpu_watts - idle_cpu_watts,
        "gpu_watts": gpu_watts - idle_gpu_watts,
        "misplaced": float(sum(classes[node] == "eco" for name, node in placed.items() if name.startswith("fast"))),
        "headroom_pct": min(node["headroom"] for node in await system.scoring()),
    }
    most = Counter(placed.values()).most_common(1)[0][1]
    print(
        f"{kind.title:22}{figures['pods_per_s']:6.0f} pods/s, {figures['cpu_watts']:.0f} W by CPUs, "
        f"{figures['gpu_watts']:.0f} W by GPUs, at most {most} on a node",
        flush=True,
    )
    await system.clear()
    return figures


async def run(nodes: int, pods: int, waves: int) -> dict[Kind, Results]:
    """All waves, the kinds in turn."""
    results = {kind: Results() for kind in KINDS}
    async with run_system(nodes) as system:
        for number in range(waves):
            for index, kind in enumerate(KINDS):
                # Names of their own for each wave: KWOK may still be about to delete the last wave's, by name.
                wave = make_wave(pods, number * len(KINDS) + index)
                for name, figure in (await run_wave(system, kind, wave, nodes)).items():
                    getattr(results[kind], name).append(figure)
            print(table(results), flush=True)
    return results


def table(results: dict[Kind, Results]) -> str:
    """All figures: medians, and the range of rates."""
    base = {kind.percentage: statistics.median(each.pods_per_s) for kind, each in results.items() if not kind.extender}
    columns = f"{'pods/s':>8}{'range':>12}{'ratio':>8}{'CPU W':>9}{'GPU W':>9}{'least headroom':>16}{'fast on eco':>13}"
    lines = [f"{'extender, candidates':22}{columns}{'scheduler':>13}{'extender':>12}"]
    for kind, each in results.items():
        rate = statistics.median(each.pods_per_s)
        spread = f"{min(each.pods_per_s):.0f}..{max(each.pods_per_s):.0f}"
        lines.append(
            f"{kind.title:22}{rate:8.0f}{spread:>12}{rate / base[kind.percentage]:8.2f}"
            f"{statistics.median(each.cpu_watts):9.0f}{statistics.median(each.gpu_watts):9.0f}"
            f"{statistics.median(each.headroom_pct):14.1f} %"
            f"{statistics.median(each.misplaced):13.0f}{statistics.median(each.scheduler_ms):8.2f} ms/p"
            f"{statistics.median(each.extender_ms):7.2f} ms/p"
        )
    return "\n".join(lines)


def plot(results: dict[Kind, Results], nodes: int) -> Path:
    """Rates and watts side by side, to out/."""
    figure = Figure(figsize=(10, 4))
    rates, watts = figure.subplots(1, 2)
    titles = [kind.title.replace(", ", "\n") for kind in results]
    colors = ["tab:blue" if kind.extender else "tab:gray" for kind in results]
    rates.bar(titles, [statistics.median(each.pods_per_s) for each in results.values()], color=colors)
    rates.set(ylabel="pods/s", title=f"kube-scheduler at {nodes:,} nodes")
    bottoms = [statistics.median(each.gpu_watts) for each in results.values()]
    watts.bar(titles, bottoms, color=colors, alpha=0.5, label="GPUs")
    watts.bar(
        titles,
        [statistics.median(each.cpu_watts) for each in results.values()],
        bottom=bottoms,
        color=colors,
        label="CPUs",
    )
    watts.set(ylabel="watts added by a wave", title="where its pods went")
    watts.legend()
    OUT.mkdir(exist_ok=True)
    path = OUT / f"scheduler-{nodes}.png"
    figure.savefig(path, dpi=150, bbox_inches="tight")
    return path


def main() -> int:
    """Run the bench; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--pods", type=int, default=1_000, help="pods of a wave")
    parser.add_argument("--waves", type=int, default=3, help="waves of each kind of scheduler")
    options = parser.parse_args()
    results = asyncio.run(run(options.nodes, options.pods, options.waves))
    print(plot(results, options.nodes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
