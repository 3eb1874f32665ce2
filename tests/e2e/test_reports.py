"""The operator's reports of a node on a real API server: conditions of its target, and events."""

import json
from typing import Any

import pytest
from tests.e2e.system import System
from tests.e2e.waiting import eventually

from joulie_api.errors import NotFound
from joulie_api.resources import EVENTS, NODE_POWER_PROFILES

pytestmark = pytest.mark.e2e

#: The least dense node of its family: it is eco whenever half of the nodes are.
_NODE = "xeon-8480-2"


async def _conditions(system: System) -> dict[str, dict[str, Any]]:
    try:
        raw = await system.view.client.get(NODE_POWER_PROFILES, _NODE)
    except NotFound:
        return {}
    return {each["type"]: each for each in json.loads(raw).get("status", {}).get("conditions", ())}


async def _events(system: System, name: str, namespace: str = "default") -> list[dict[str, Any]]:
    selector = f"involvedObject.name={name}"
    found = await system.view.client.list(EVENTS, namespace, field_selector=selector)
    return [event for event in found if event["source"].get("component") == "joulie-operator"]


@pytest.mark.system(operator={"POLICY_TYPE": "static_partition", "STATIC_HP_FRAC": "1.0"})
async def test_a_node_reports_its_plan_its_draining_and_its_enforcement(system: System) -> None:
    async def conditions_are(**expected: str) -> None:
        conditions = await _conditions(system)
        assert {type_: each["status"] for type_, each in conditions.items()} == expected

    await eventually(lambda: conditions_are(Planned="True", Draining="False", Enforced="True"), within_s=40)
    pods = await system.view.create_pods(
        1, "holder", cpu="4", workload_class="performance", node_selector={"kubernetes.io/hostname": _NODE}
    )
    await system.view.create_pods(1, "odd", cpu="1", workload_class="turbo")
    await eventually(lambda: system.view.placed(pods), within_s=15)
    await system.operator.restart({"STATIC_HP_FRAC": "0.5"})
    await eventually(lambda: conditions_are(Planned="True", Draining="True", Enforced="True"), within_s=20)
    since = (await _conditions(system))["Draining"]["lastTransitionTime"]

    await system.operator.restart()
    await eventually(lambda: conditions_are(Planned="True", Draining="True", Enforced="True"), within_s=20)
    assert (await _conditions(system))["Draining"]["lastTransitionTime"] == since
    await system.view.delete_pods(pods)
    await eventually(lambda: conditions_are(Planned="True", Draining="False", Enforced="True"), within_s=20)

    async def events_name_it() -> None:
        reasons = [event["reason"] for event in await _events(system, _NODE)]
        assert sorted(reasons) == ["EcoDeferred", "EcoUnblocked"]
        warned = await _events(system, "odd-0", system.view.namespace)
        assert [(event["type"], event["reason"]) for event in warned] == [("Warning", "UnknownWorkloadClass")]

    await eventually(events_name_it, within_s=15)
