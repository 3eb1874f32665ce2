"""Two thousand nodes: what the operator writes, and when. Minutes long: `just soak`."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import pytest
from tests.e2e.system import System
from tests.e2e.view import count
from tests.e2e.waiting import eventually

from joulie_devcluster.nodes import CpuClass, NodeClass, default_node_classes, scale

pytestmark = pytest.mark.soak

_NODES = 2_000
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

    def per_s(self, phase: str) -> list[float]:
        """Writes a second in the intervals of a phase."""
        return [writes.total() / seconds for _, each, writes, seconds in self.rates() if each == phase]

    def table(self) -> str:
        kinds = sorted({kind for sample in self.samples for kind in sample.writes})
        lines = [f"{'s':>6} {'phase':8}{'writes/s':>10}" + "".join(f"{kind:>20}" for kind in kinds)]
        for at_s, phase, writes, seconds in self.rates():
            by_kind = "".join(f"{writes[kind]:20.0f}" for kind in kinds)
            lines.append(f"{at_s:6.0f} {phase:8}{writes.total() / seconds:10.1f}{by_kind}")
        return "\n".join(lines)


@pytest.mark.system(
    nodes=_FIRST,
    operator={"POLICY_TYPE": "queue_aware_v1", "QUEUE_HP_BASE_FRAC": "0.2", "QUEUE_PERF_PER_HP_NODE": "1"},
)
@pytest.mark.timeout(900)
async def test_two_thousand_nodes_are_steered_with_a_bounded_rate_of_writes(system: System) -> None:
    recorder = _Recorder(system)
    recording = asyncio.create_task(recorder.run())
    try:
        await system.stack.cluster.add_nodes(scale(default_node_classes(), _NODES))
        await eventually(lambda: _all_steered(system), within_s=180)
        recorder.phase = "settle"
        await asyncio.sleep(30)
        recorder.phase = "rest"
        await asyncio.sleep(_REST_S)
        recorder.phase = "burst"
        await _burst(system)
    finally:
        recording.cancel()
        await asyncio.gather(recording, return_exceptions=True)
        print(recorder.table())
    rest = recorder.per_s("rest")
    assert sum(rest) / len(rest) < 1.5 * _HEARTBEATS_PER_S
    # Labels, target and twin of every node once, and twins again as hardware and caps become known.
    joined = sum((writes for _, phase, writes, _ in recorder.rates() if phase in {"join", "settle"}), Counter())
    assert joined.total() < 8 * _NODES, joined


async def _all_steered(system: System) -> None:
    profiles = count(await system.view.profiles())
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
