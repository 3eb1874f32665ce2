"""Events of the grid on a real control plane: a cut of 30 % is held, spares performance pods, and ends.

The observer reads the caps of all nodes from the simulator, and nothing that Joulie says.
"""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.plugin import Plugin
from tests.e2e.power_row import is_held, observed, put_tree, sees
from tests.e2e.system import System
from tests.e2e.waiting import eventually

from joulie_api.errors import KubeError
from joulie_api.resources import POWER_DOMAINS, POWER_EVENTS
from joulie_core.timestamps import rfc3339
from joulie_testing.api import make_power_event

pytestmark = pytest.mark.e2e

_PAGE = Path(__file__).parents[2] / "docs" / "power-events.md"
_ROW_W, _CUT_W = 3_600, 2_520
_PERFORMANCE = "xeon-8480-0"


async def _status(system: System, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await system.view.client.get(POWER_EVENTS, name)).get("status", {})
    return found


async def _is_in_state(system: System, name: str, state: str) -> None:
    found = await _status(system, name)
    assert found.get("state") == state, found


@pytest.mark.system(
    operator={"POWER_DOMAINS": "Enforce", "POLICY_TYPE": "static_partition", "STATIC_HP_FRAC": "1.0"},
    agent={"RECONCILE_INTERVAL": "2s", "POWER_BUDGETS": "On"},
)
async def test_a_cut_of_30_percent_is_held_spares_performance_pods_and_ends(system: System, tmp_path: Path) -> None:
    client = system.view.client
    await system.view.create_pods(
        1, "train", cpu=2, workload_class="performance", node_selector={"kubernetes.io/hostname": _PERFORMANCE}
    )
    async with observed(system) as observer:
        await eventually(lambda: sees(observer, 4_980.0), within_s=60)
        await put_tree(system, _ROW_W)
        await eventually(lambda: is_held(system, observer, _ROW_W), within_s=60)
        before = (await system.view.simulated(_PERFORMANCE))["capWatts"]
        await _refuses_hostile_events(system)

        started_s = time.time()
        times = {"start": rfc3339(started_s + 3), "end": rfc3339(started_s + 48), "standing": None}
        await client.create(POWER_EVENTS, make_power_event("cut", limitWatts=_CUT_W, mayAffect=["standard"], **times))
        # A second source asks for less, and frees nothing.
        await client.create(POWER_EVENTS, make_power_event("other", limitWatts=_CUT_W + 500))

        async def cut() -> None:
            assert observer.sums["row-1"] <= _CUT_W, (observer.sums, await _status(system, "cut"))

        await eventually(cut, within_s=25)
        print(f"in force {time.time() - started_s - 3:.1f} s after the start")
        observer.forget_of("row-1")
        # Limits are in force before statuses say so.
        await eventually(lambda: _is_shown(system, tmp_path), within_s=20)

        async def spared() -> None:
            assert (await system.view.simulated(_PERFORMANCE))["capWatts"] > 0.97 * before

        # The second source may have lowered it before the cut began.
        await eventually(spared, within_s=20)
        while time.time() < started_s + 47.5:
            await cut()
            # The observer reads meanwhile.
            await asyncio.sleep(0.1)
        assert observer.largest["row-1"] <= _CUT_W

        # The other event stays; without it the row has its own limit.
        await eventually(lambda: _is_in_state(system, "cut", "Ended"), within_s=20)
        await client.delete(POWER_EVENTS, "other")

        async def restored() -> None:
            assert observer.sums["row-1"] > 0.95 * _ROW_W, observer.sums

        await eventually(restored, within_s=40)
        await is_held(system, observer, _ROW_W)


async def _refuses_hostile_events(system: System) -> None:
    """The API server refuses what the rules of the kind exclude, and takes the example of the page."""
    (example,) = [each for each in _PAGE.read_text().split("```yaml\n")[1:] if "kind: PowerEvent" in each]
    await system.view.client.create(POWER_EVENTS, yaml.safe_load(example.split("```")[0]))
    await system.view.client.delete(POWER_EVENTS, "call-1")
    for fields, message in (
        ({"reduceByPercent": 30}, "set one of limitWatts and reduceByPercent"),
        ({"limitWatts": None, "reduceByPercent": 30}, "reduceByPercent needs a baseline"),
        ({"standing": None}, "set one of end and standing: true"),
        ({"standing": None, "start": "2030-01-01T00:00:01Z", "end": "2030-01-01T00:00:01+00:00"}, "end must be after"),
        ({"ifSourceLost": "Release"}, "ifSourceLost needs sourceTimeoutSeconds"),
        ({"sourceLostLimitWatts": 5}, "sourceLostLimitWatts belongs to ifSourceLost: Limit"),
        ({"start": "tomorrow"}, "date-time"),
        ({"mayAffect": []}, "mayAffect"),
        ({"mayAffect": ["standard", "standard"]}, "Duplicate value"),
    ):
        with pytest.raises(KubeError, match=message):
            await system.view.client.create(POWER_EVENTS, make_power_event("bad", **fields))


async def _is_shown(system: System, tmp_path: Path) -> None:
    status = await _status(system, "cut")
    assert status["bindingEvent"] == "cut"
    assert status["affected"]["performanceNodes"] == 0
    domain = json.loads(await system.view.client.get(POWER_DOMAINS, "row-1"))
    assert domain["status"]["bindingEvent"] == "cut"
    plugin = Plugin(system.stack.cluster.kubeconfig)
    assert "Active" in await plugin.run("event")
    assert "may affect standard" in await plugin.run("event", "cut")
    report = tmp_path / "cut.csv"
    await plugin.run("event", "cut", "--report", str(report))
    assert "# event: cut" in report.read_text()
    metrics = await system.operator.metrics()
    assert f'joulie_operator_power_event_target_watts{{domain="row-1",event="cut"}} {_CUT_W}.0' in metrics
