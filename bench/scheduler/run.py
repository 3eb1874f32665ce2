"""CPU time that a scheduled pod costs each process, API requests per pod, pods per second and watts.

    just bench scheduler                                  1,500 pods on 1,000 KWOK nodes, two waves of each arm
    just bench scheduler --profile                        also CPU profiles of kube-scheduler, divided into its parts
    just bench scheduler --arms with:0 with:20 with:100   other shares of the nodes
    just bench scheduler --arms with:0 native:0           performance pods with a node affinity against eco nodes
    just bench scheduler --arms with:0 with:0:400         kube-scheduler with the environment variable GOGC=400
    just bench scheduler --arms without:100 with:100:energy_v2 with:100:headroom_v1     scores of the extender

An arm is without:P, with:P or native:P: without the extender, with it, and with it and performance pods that have a
required node affinity of their own against eco nodes; P is `percentageOfNodesToScore`, 0 the scheduler's default. A
second number is kube-scheduler's GOGC, and a name is that of the extender's score. Arms take turns on one cluster with
one operator, two agents and one extender. Every wave is the same mix of pods on a cluster that is empty and measured
to be.

CPU time is that of the scheduling of a wave, from the start of a new kube-scheduler until three seconds after the last
pod runs, less what each process uses at rest; the operator's includes the creation of the pods, during which no
scheduler runs. It hardly depends on what else the machine does. Pods per second do, and are those of this machine.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pprof
from matplotlib.figure import Figure
from system import System, make_wave, run_system

from joulie_core.scoring.registry import DEFAULT_SCORE, SCORE_POLICIES
from joulie_devcluster.control_plane.audit import RequestKind
from joulie_devcluster.control_plane.scheduler_config import SchedulerSettings
from joulie_devcluster.host.usage import peak_mib

OUT = Path("out")
_REST_S = 20.0
_TAIL_S = 3.0
_QUIET_TIMEOUT_S = 600.0
#: What is written of a cluster in which nothing changes.
_HEARTBEATS = frozenset({"telemetryprofiles/status", "nodetwins/status", "leases"})
_PROFILE_S = 8
_PROCESSES = ("kube-scheduler", "extender", "operator", "agents", "kube-apiserver")
_JOULIE = ("joulie-operator", "joulie-agent", "joulie-extender")
_GO_DEFAULT = 100
#: Fewer requests per pod than this are not shown.
_LEAST_REQUESTS = 0.02


@dataclass(frozen=True, order=True)
class Arm:
    """A configuration of the scheduler.

    Attributes:
        extender: whether the scheduler calls the extender.
        percentage: `percentageOfNodesToScore`.
        native: whether performance pods have a required node affinity against eco nodes.
        gogc: percentage by which kube-scheduler's heap grows between garbage collections; 100 is Go's default.
        score: SCORE_POLICY of the extender.
    """

    extender: bool
    percentage: int
    native: bool = False
    gogc: int = _GO_DEFAULT
    score: str = DEFAULT_SCORE.name

    @classmethod
    def parse(cls, text: str) -> "Arm":
        """Read an arm as it is written on the command line."""
        kind, percentage, *rest = text.split(":")
        scores = [part for part in rest if part in SCORE_POLICIES]
        gogc = [int(part) for part in rest if part not in SCORE_POLICIES]
        if kind not in ("without", "with", "native") or len(gogc) > 1 or len(scores) > 1:
            raise ValueError(text)
        return cls(
            kind != "without",
            int(percentage),
            kind == "native",
            gogc[0] if gogc else _GO_DEFAULT,
            scores[0] if scores else DEFAULT_SCORE.name,
        )

    @property
    def title(self) -> str:
        """Name in tables."""
        kind = "native" if self.native else "with" if self.extender else "without"
        collected = "" if self.gogc == _GO_DEFAULT else f", GOGC {self.gogc}"
        scored = "" if self.score == DEFAULT_SCORE.name else f", {self.score}"
        return f"{kind}, {f'{self.percentage} %' if self.percentage else 'default'}{collected}{scored}"


@dataclass
class Wave:
    """Results of one wave.

    Attributes:
        cpu_ms: CPU milliseconds per pod by process.
        requests: requests to the API server per pod by kind.
        profile: milliseconds per pod of the parts of kube-scheduler; empty without a profile.
        pods_per_s: pods bound per second, from the tenth part of the wave to the last but one.
        cpu_watts: watts of CPUs that the wave adds.
        misplaced: performance pods on nodes that are eco.
        scheduler_mib: the most resident memory of kube-scheduler, which is new with each wave, in MiB.
    """

    cpu_ms: dict[str, float]
    requests: dict[RequestKind, float]
    pods_per_s: float
    cpu_watts: float
    misplaced: int
    scheduler_mib: float
    profile: dict[pprof.Part, float] = field(default_factory=dict)


class Bench:
    """All waves of all arms on one system."""

    def __init__(self, system: System, nodes: int, pods: int, *, profile: bool) -> None:
        self._system = system
        self._nodes = nodes
        self._pods = pods
        self._profile = profile
        self._requests_at_rest: dict[RequestKind, float] = {}
        self.results: dict[Arm, list[Wave]] = {}

    async def rest(self) -> None:
        """Measure what a cluster without pods costs."""
        await self._system.wait_settled(self._nodes)
        await self._quiet()
        before = self._system.meter.read()
        self._system.audit.take()
        await asyncio.sleep(_REST_S)
        after = self._system.meter.read()
        self._system.meter.rest(before, after)
        requests = self._system.audit.take()
        self._requests_at_rest = {request: count / _REST_S for request, count in requests.items()}
        used = ", ".join(f"{name} {share:.3f}" for name, share in self._system.meter.at_rest.items())
        rates = {request: rate for request, rate in self._requests_at_rest.items() if request.user_agent in _JOULIE}
        print(f"at rest: CPU seconds per second: {used}; {sum(rates.values()):.1f} requests per second of Joulie")
        for request, rate in sorted(rates.items()):
            print(f"    {request!s:52}{rate:6.1f}", flush=True)

    async def _quiet(self) -> None:
        """Wait until nothing is written but heartbeats: twins are measured long before every target is in force."""
        async with asyncio.timeout(_QUIET_TIMEOUT_S):
            while True:
                self._system.audit.take()
                await asyncio.sleep(_REST_S)
                taken = self._system.audit.take()
                mine = (each for each in taken if each.user_agent in _JOULIE and each.verb != "watch")
                if all(each.resource in _HEARTBEATS for each in mine):
                    return

    async def wave(self, arm: Arm, number: int) -> None:
        """Schedule one wave and keep its results."""
        system, pods = self._system, make_wave(self._pods, number, native=arm.native)
        await system.use_score(arm.score)
        await system.wait_settled(self._nodes)
        classes = {node["nodeName"]: node["schedulableClass"] for node in await system.scoring()}
        idle_watts = await system.cpu_watts(pods=0)
        before = system.meter.read()
        await system.create(pods)
        created, started = system.meter.read(), time.monotonic()
        system.audit.take()
        settings = SchedulerSettings(percentage_of_nodes_to_score=arm.percentage)
        profile = asyncio.create_task(self._take_profile(arm)) if self._profile else None
        bound_at = await system.schedule(self._pods, settings, extender=arm.extender, gogc=arm.gogc)
        watts = await system.cpu_watts(pods=self._pods) - idle_watts
        await asyncio.sleep(_TAIL_S)
        used = system.meter.between(created, system.meter.read())
        requests = self._requests(system.audit.take(), time.monotonic() - started)
        used["operator"] += system.meter.between(before, created)["operator"]
        placed = system.placements()
        first, last = len(bound_at) // 10, len(bound_at) * 9 // 10
        wave = Wave(
            cpu_ms={name: seconds / self._pods * 1e3 for name, seconds in used.items()},
            requests=requests,
            pods_per_s=(last - first) / (bound_at[last] - bound_at[first]),
            cpu_watts=watts,
            misplaced=sum(classes[node] == "eco" for name, node in placed.items() if name.startswith("fast")),
            scheduler_mib=peak_mib(system.scheduler.pid),
            profile=await profile if profile else {},
        )
        self.results.setdefault(arm, []).append(wave)
        most = Counter(placed.values()).most_common(1)[0][1]
        cpu = ", ".join(f"{name} {figure:.2f}" for name, figure in wave.cpu_ms.items())
        late = bound_at[-1] - bound_at[last]
        print(f"{arm.title:28}{wave.pods_per_s:6.0f} pods/s, the last tenth in {late:.1f} s, at most {most} on a node")
        print(f"    CPU milliseconds per pod: {cpu}", flush=True)
        await system.clear()

    async def _take_profile(self, arm: Arm) -> dict[pprof.Part, float]:
        profile, pods = await self._system.profile(_PROFILE_S, after_pods=self._pods // 10)
        name = arm.title.replace(", ", "-").replace(" %", "").replace(" ", "-")
        await asyncio.to_thread((OUT / f"kube-scheduler-{name}.pprof").write_bytes, profile)
        parts = pprof.cpu_by_part(pprof.read_stacks(profile))
        return {part: seconds / pods * 1e3 for part, seconds in parts.items()}

    def _requests(self, counted: Counter[RequestKind], duration_s: float) -> dict[RequestKind, float]:
        at_rest = self._requests_at_rest
        return {
            request: (count - at_rest.get(request, 0.0) * duration_s) / self._pods for request, count in counted.items()
        }


def cost_table(results: dict[Arm, list[Wave]]) -> str:
    """Return CPU time per pod and process, and what else the arms differ in; ranges over the waves."""
    rows: list[tuple[str, Callable[[Wave], float], str]] = [
        (f"{name}, ms", lambda wave, name=name: wave.cpu_ms[name], "{:.2f}") for name in _PROCESSES
    ]
    rows += [
        ("pods/s", lambda wave: wave.pods_per_s, "{:.0f}"),
        ("kW added by CPUs", lambda wave: wave.cpu_watts / 1e3, "{:.1f}"),
        ("fast pods on eco", lambda wave: wave.misplaced, "{:.0f}"),
        ("kube-scheduler, MiB", lambda wave: wave.scheduler_mib, "{:.0f}"),
    ]
    lines = ["".join([f"{'per pod':20}", *(f"{arm.title:>26}" for arm in results)])]
    for name, figure, form in rows:
        cells = (_range([figure(wave) for wave in waves], form) for waves in results.values())
        lines.append("".join([f"{name:20}", *(f"{cell:>26}" for cell in cells)]))
    rates = {arm: statistics.median(wave.pods_per_s for wave in waves) for arm, waves in results.items()}
    ratios = (_ratio(arm, rates) for arm in results)
    lines.append("".join([f"{'of without':20}", *(f"{ratio:>26}" for ratio in ratios)]))
    return "\n".join(lines)


def request_table(results: dict[Arm, list[Wave]]) -> str:
    """Return requests to the API server per pod, those at rest not counted; medians."""
    lines = ["".join([f"{'requests per pod':56}", *(f"{arm.title:>26}" for arm in results)])]
    for request in sorted({request for waves in results.values() for wave in waves for request in wave.requests}):
        figures = [statistics.median(wave.requests.get(request, 0.0) for wave in waves) for waves in results.values()]
        if max(figures) >= _LEAST_REQUESTS:
            lines.append("".join([f"{request!s:56}", *(f"{figure:>26.2f}" for figure in figures)]))
    return "\n".join(lines)


def _range(figures: Sequence[float], form: str) -> str:
    texts = dict.fromkeys(form.format(figure) for figure in (min(figures), max(figures)))
    return "..".join(texts)


def _ratio(arm: Arm, rates: dict[Arm, float]) -> str:
    base = rates.get(Arm(extender=False, percentage=arm.percentage, gogc=arm.gogc))
    return "-" if base is None else f"{rates[arm] / base:.2f}"


def profile_table(results: dict[Arm, list[Wave]]) -> str:
    """Return the parts of kube-scheduler's CPU time per pod, in milliseconds; medians."""
    lines = ["".join([f"{'kube-scheduler, ms':28}", *(f"{arm.title:>26}" for arm in results)])]
    for part in pprof.Part:
        figures = [statistics.median(wave.profile[part] for wave in waves) for waves in results.values()]
        lines.append("".join([f"{part.value:28}", *(f"{figure:>26.2f}" for figure in figures)]))
    return "\n".join(lines)


def plot_costs(results: dict[Arm, list[Wave]], nodes: int) -> Path:
    """Draw CPU time per pod, stacked by process, and the watts that a wave adds; returns the picture's path."""
    figure = Figure(figsize=(11, 4))
    costs, watts = figure.subplots(1, 2)
    titles = [arm.title.replace(", ", "\n") for arm in results]
    bottoms = [0.0] * len(results)
    for name in _PROCESSES:
        heights = [statistics.median(wave.cpu_ms[name] for wave in waves) for waves in results.values()]
        costs.bar(titles, heights, bottom=bottoms, label=name)
        bottoms = [bottom + height for bottom, height in zip(bottoms, heights, strict=True)]
    costs.set(ylabel="CPU milliseconds per pod", title=f"a scheduled pod at {nodes:,} nodes")
    costs.legend(fontsize="small")
    kilowatts = [statistics.median(wave.cpu_watts for wave in waves) / 1e3 for waves in results.values()]
    watts.bar(titles, kilowatts, color=["tab:blue" if arm.extender else "tab:gray" for arm in results])
    watts.set(ylabel="kW added by CPUs", title="where the pods went")
    return _save(figure, f"scheduler-{nodes}.png")


def plot_profiles(results: dict[Arm, list[Wave]], nodes: int) -> Path:
    """Draw the parts of kube-scheduler's CPU time per pod; returns the picture's path."""
    figure = Figure(figsize=(10, 0.9 * len(results) + 1.8))
    axes = figure.subplots()
    lefts = [0.0] * len(results)
    colors = [f"C{index}" for index in range(10)] + ["lightgray"]
    for part, color in zip(pprof.Part, colors, strict=True):
        widths = [statistics.median(wave.profile[part] for wave in waves) for waves in results.values()]
        axes.barh([arm.title for arm in results], widths, left=lefts, label=part.value, color=color)
        lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
    axes.invert_yaxis()
    axes.set(xlabel="CPU milliseconds per pod", title=f"kube-scheduler's own profile at {nodes:,} nodes")
    axes.legend(fontsize="small", ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    return _save(figure, f"scheduler-profile-{nodes}.png")


def _save(figure: Figure, name: str) -> Path:
    path = OUT / name
    figure.savefig(path, dpi=150, bbox_inches="tight")
    return path


def _write_figures(results: dict[Arm, list[Wave]], nodes: int) -> Path:
    written = [
        {
            "arm": arm.title,
            "cpu_ms": wave.cpu_ms,
            "pods_per_s": wave.pods_per_s,
            "cpu_watts": wave.cpu_watts,
            "misplaced": wave.misplaced,
            "scheduler_mib": wave.scheduler_mib,
            "requests": {str(request): count for request, count in wave.requests.items()},
            "profile": wave.profile,
        }
        for arm, waves in results.items()
        for wave in waves
    ]
    path = OUT / f"scheduler-{nodes}.json"
    path.write_text(json.dumps(written, indent=1))
    return path


async def run(arms: Sequence[Arm], nodes: int, pods: int, waves: int, *, profile: bool) -> dict[Arm, list[Wave]]:
    """Run all waves, the arms in turn."""
    async with run_system(nodes) as system:
        bench = Bench(system, nodes, pods, profile=profile)
        await bench.rest()
        for number in range(waves):
            for index, arm in enumerate(arms):
                # Names of their own for each wave: KWOK may still be about to delete the last wave's, by name.
                await bench.wave(arm, number * len(arms) + index)
            print(cost_table(bench.results), flush=True)
        return bench.results


def main() -> int:
    """Run the bench; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--pods", type=int, default=1_500, help="pods of a wave")
    parser.add_argument("--waves", type=int, default=2, help="waves of each arm")
    default = [Arm.parse(text) for text in ("without:0", "with:0", "without:100", "with:100")]
    parser.add_argument("--arms", type=Arm.parse, nargs="+", default=default)
    parser.add_argument("--profile", action="store_true", help="profile kube-scheduler")
    options = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    results = asyncio.run(run(options.arms, options.nodes, options.pods, options.waves, profile=options.profile))
    print(request_table(results))
    print(plot_costs(results, options.nodes))
    if options.profile:
        print(profile_table(results))
        print(plot_profiles(results, options.nodes))
    print(_write_figures(results, options.nodes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
