"""Many pods at once, faster than any measurement follows."""

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from tests.e2e.extender_client import scoring
from tests.e2e.system import System
from tests.e2e.waiting import eventually

from joulie_devcluster.control_plane.nodes import CpuClass, NodeClass

pytestmark = [pytest.mark.e2e, pytest.mark.long]

_NODES = (NodeClass(name="equal", count=16, cpu=CpuClass(model="AMD-EPYC-9654", cores=192), memory="768Gi"),)
_PODS = 500
#: Cores of what runs already on the nodes, in turn: enough to tell them apart by a few points, no more.
_BACKGROUND = (0, 8, 16, 24)
#: Cores in use on each node after a burst, where all are used alike: one with more background gets fewer pods.
_MEAN = _PODS / 16 + sum(_BACKGROUND) / len(_BACKGROUND)


@pytest.mark.system(
    nodes=_NODES,
    operator={"POLICY_TYPE": "static_partition", "STATIC_HP_FRAC": "1.0"},
    agent={"RECONCILE_INTERVAL": "5s"},
    extender={"TELEMETRY_INTERVAL": "5s"},
)
@pytest.mark.timeout(450)
async def test_five_hundred_pods_at_once_spread_over_equal_nodes(system: System) -> None:
    await _start_background(system)
    piled = await _burst(system, "piled", count_in_flight=False)
    spread = await _burst(system, "spread", count_in_flight=True)
    print(_table(piled, spread))
    assert max(spread.values()) < 1.5 * _MEAN
    assert min(spread.values()) > 0.6 * _MEAN
    # The same burst without: what this is for, and the proof that this test would see it missing.
    assert max(piled.values()) > 2 * _MEAN


async def _start_background(system: System) -> None:
    """Load the nodes a little and not alike."""
    names = []
    for number in range(16):
        if cores := _BACKGROUND[number % 4]:
            selector = {"kubernetes.io/hostname": f"equal-{number}"}
            names += await system.view.create_pods(1, f"background-{number}", cpu=str(cores), node_selector=selector)
    await eventually(lambda: system.view.placed(names), within_s=30)


async def _burst(system: System, prefix: str, *, count_in_flight: bool) -> Counter[str]:
    """Cores in use by node after a burst, background included; its pods are deleted when this returns.

    Trends start anew with the operator, once it measures what runs now: a change before stays in their window for
    minutes.
    """
    await system.extender.restart({"COUNT_IN_FLIGHT": str(count_in_flight).lower()})
    await system.extender.wait_ready()
    await eventually(lambda: _measured(system), within_s=120)
    await system.operator.restart()
    await eventually(lambda: _calm(system), within_s=120)
    names = await system.view.create_pods(_PODS, prefix, cpu="1")
    await eventually(lambda: system.view.placed(names), within_s=60)
    cores = Counter({f"equal-{number}": _BACKGROUND[number % 4] for number in range(16)})
    cores.update((await system.view.placed(names)).values())
    await system.view.delete_pods(names)
    return cores


async def _measured(system: System) -> dict[str, dict[str, Any]]:
    """Measurements show the background and nothing else, and the extender has them; returns its data of the nodes."""
    nodes = await scoring(system.stack.extender_url)
    assert len(nodes) == 16
    levels: dict[int, list[float]] = {}
    for name, node in nodes.items():
        assert node["assumedPowerW"] == 0, (name, node)
        levels.setdefault(int(name.removeprefix("equal-")) % 4, []).append(node["measuredPowerW"])
    bands = [(min(watts), max(watts)) for _, watts in sorted(levels.items())]
    assert all(high - low < 1 for low, high in bands), bands
    assert all(low - high > 5 for (_, high), (low, _) in pairwise(bands)), bands
    return nodes


async def _calm(system: System) -> None:
    """No trend is left that would tell nodes apart; the extender takes none for zero."""
    for name, node in (await _measured(system)).items():
        assert abs(node["powerTrendWPerMin"]) < 6, (name, node)


def _table(piled: Mapping[str, int], spread: Mapping[str, int]) -> str:
    lines = [f"{'cores; pods in flight are':26}{'ignored':>10}{'counted':>10}"]
    lines += [f"{node:26}{piled[node]:>10}{spread[node]:>10}" for node in piled]
    shares = [f"{max(counts.values()) / _MEAN:>10.2f}" for counts in (piled, spread)]
    return "\n".join([*lines, f"{'largest / mean':26}{''.join(shares)}"])
