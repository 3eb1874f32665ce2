"""Two thousand nodes: what the operator writes, and when. Minutes long: `just soak`."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from tests.e2e.system import System
from tests.e2e.view import count
from tests.e2e.waiting import eventually

from joulie_api.errors import ServerError
from joulie_devcluster.control_plane.node_pool import create_nodes
from joulie_devcluster.control_plane.nodes import CpuClass, NodeClass, default_node_classes, node_manifests, scale

pytestmark = pytest.mark.soak

_NODES = 2_000
_OUT = Path("out")
_FIRST = (NodeClass(name="first", cpu=CpuClass(model="AMD-EPYC-9654", cores=192)),)
_INTERVAL_S = 5.0
_REST_S = 90.0
#: Twins are rewritten every 90 s though nothing changes.
_HEARTBEATS_PER_S = _NODES / 90


@dataclass(frozen=True, slots=True)
class _Sample:
    at_s: float
    phase: str
    writes: Mapping[str, float]


class _Recorder:
    """Reads the operator's counters all the while."""

    def __init__(self, system: System) -> None:
        self._system = system
        self.samples: list[_Sample] = []
        self.phase = "join"

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        while True:
            self.samples.append(_Sample(loop.time() - start, self.phase, await self._system.writes()))
            await asyncio.sleep(_INTERVAL_S)

    def rates(self) -> list[tuple[float, str, Counter[str], float]]:
        """For each interval: its end, its phase, writes by kind, seconds."""
        return [
            (after.at_s, after.phase, Counter(after.writes) - Counter(before.writes), after.at_s - before.at_s)
            for before, after in pairwise(self.samples)
        ]

    async def only_heartbeats(self) -> None:
        """AssertionError unless the last two intervals have seen nothing but a heartbeat's share of twins."""
        for _, _, writes, seconds in self.rates()[-2:]:
            assert set(+writes) <= {"NodeTwin"}, writes
            assert writes.total() / seconds < 1.5 * _HEARTBEATS_PER_S, writes

    def per_s(self, phase: str) -> list[float]:
        """Writes a second in the intervals of a phase."""
        return [writes.total() / seconds for _, each, writes, seconds in self.rates() if each == phase]

    def kinds(self, phase: str) -> set[str]:
        """What was written in a phase."""
        return {kind for _, each, writes, _ in self.rates() if each == phase for kind in +writes}

    def plot(self) -> Path:
        """Draw the rate of writes over time, by kind, and return where."""
        rates = self.rates()
        kinds = sorted({kind for _, _, writes, _ in rates for kind in writes})
        figure = Figure(figsize=(9, 4.5))
        axes = figure.subplots()
        ends = [at_s for at_s, _, _, _ in rates]
        axes.stackplot(ends, [[writes[kind] / s for _, _, writes, s in rates] for kind in kinds], labels=kinds)
        for (_, before, _, _), (at_s, after, _, _) in pairwise(rates):
            if before != after:
                axes.axvline(at_s - _INTERVAL_S, color="black", linewidth=0.8)
                axes.text(at_s, axes.get_ylim()[1], after, va="top")
        axes.set(xlabel="seconds", ylabel="writes a second", title=f"What the operator writes, {_NODES} nodes")
        axes.legend()
        _OUT.mkdir(exist_ok=True)
        path = _OUT / "operator-writes-2000-nodes.png"
        figure.savefig(path, dpi=150, bbox_inches="tight")
        return path

    def table(self) -> str:
        kinds = sorted({kind for sample in self.samples for kind in sample.writes})
        lines = [f"{'s':>6} {'phase':8}{'writes/s':>10}" + "".join(f"{kind:>20}" for kind in kinds)]
        for at_s, phase, writes, seconds in self.rates():
            by_kind = "".join(f"{writes[kind]:20.0f}" for kind in kinds)
            lines.append(f"{at_s:6.0f} {phase:8}{writes.total() / seconds:10.1f}{by_kind}")
        return "\n".join(lines)


@pytest.mark.system(
    nodes=_FIRST,
    operator={
        "POLICY_TYPE": "queue_aware_v1",
        "QUEUE_HP_BASE_FRAC": "0.2",
        "QUEUE_PERF_PER_HP_NODE": "1",
        # A small machine runs two thousand nodes besides: a lease that is renewed late is no failure of this test.
        "LEASE_DURATION": "90s",
        "LEASE_RENEW_DEADLINE": "60s",
    },
)
@pytest.mark.timeout(1_800)
async def test_two_thousand_nodes_are_steered_with_a_bounded_rate_of_writes(system: System) -> None:
    recorder = _Recorder(system)
    recording = asyncio.create_task(recorder.run())
    try:
        await create_nodes(system.view.client, node_manifests(scale(default_node_classes(), _NODES)))
        await eventually(lambda: _all_steered(system), within_s=900)
        recorder.phase = "settle"
        await eventually(recorder.only_heartbeats, within_s=300)
        recorder.phase = "rest"
        await asyncio.sleep(_REST_S)
        recorder.phase = "burst"
        await _burst(system)
    finally:
        recording.cancel()
        await asyncio.gather(recording, return_exceptions=True)
        print(recorder.table())
        print(recorder.plot())
    assert recorder.kinds("rest") == {"NodeTwin"}
    rest = recorder.per_s("rest")
    assert sum(rest) / len(rest) < 1.5 * _HEARTBEATS_PER_S
    # Labels, target and twin of every node once, twins again as hardware and caps become known, conditions, an event;
    # and heartbeats meanwhile.
    joining = [each for each in recorder.rates() if each[1] in {"join", "settle"}]
    joined = sum((writes for _, _, writes, _ in joining), Counter())
    assert joined.total() < 8 * _NODES + _HEARTBEATS_PER_S * sum(seconds for *_, seconds in joining), joined


async def _all_steered(system: System) -> None:
    try:
        profiles = count(await system.view.profiles())
    except ServerError as error:
        # While thousands of writes are under way, the server's own cache may lag behind a list's second page.
        raise AssertionError("the server cannot list its nodes") from error
    assert profiles.total() == _NODES + 1, profiles


async def _burst(system: System) -> None:
    """Performance pods for which the base fraction of nodes is too few: the plan grows and they land in it."""
    before = count(await system.view.profiles())["performance"]
    assert before == pytest.approx(0.2 * _NODES, abs=1)
    pods = await system.view.create_pods(500, "fast", cpu="4", workload_class="performance")
    await eventually(lambda: system.view.placed(pods), within_s=120)

    async def grown() -> None:
        assert count(await system.view.profiles())["performance"] == len(pods)

    await eventually(grown, within_s=30)
    profiles = await system.view.profiles()
    placements = await system.view.placed(pods)
    assert {profiles[node] for node in placements.values()} == {"performance"}
