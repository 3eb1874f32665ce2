"""A row of two racks with simulated nodes whose caps an observer adds up, for tests of power domains."""

import json
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from tests.e2e.power_observer import PowerObserver, observing
from tests.e2e.system import System

from joulie_api.resources import POWER_DOMAINS
from joulie_core.labels import HW_GPU_COUNT, RACK

#: Two packages of 360 W, and two of 350 W, in each node: 4,980 W in all.
RACKS = {
    "rack-1": tuple(f"epyc-9654-{number}" for number in range(4)),
    "rack-2": tuple(f"xeon-8480-{number}" for number in range(3)),
}
MOST_W = {"row-1": 4980.0, "rack-1": 2880.0, "rack-2": 2100.0}


def observed(system: System) -> AbstractAsyncContextManager[PowerObserver]:
    """Observe both racks and the row."""
    return observing(system.view.sim_url, {**RACKS, "row-1": sum(RACKS.values(), ())})


async def put_tree(system: System, row_watts: int) -> None:
    for node in (name for names in RACKS.values() for name in names):
        # That there are no GPUs has to be stated where no agent reads it.
        await system.view.label(node, {HW_GPU_COUNT: "0"})
    for rack, names in RACKS.items():
        for node in names:
            await system.view.label(node, {RACK: rack})
    row: dict[str, Any] = {"limitWatts": row_watts}
    racks = {rack: {"parent": "row-1", "nodeSelector": {RACK: rack}, "limitWatts": 2_500} for rack in RACKS}
    for name, spec in ({"row-1": row} | racks).items():
        fields = {"mode": "Enforce", "onLostControl": "KeepGuaranteed", **spec}
        body = {"apiVersion": POWER_DOMAINS.api_version, "kind": "PowerDomain", "metadata": {"name": name}}
        await system.view.client.create(POWER_DOMAINS, {**body, "spec": fields})


async def domain_status(system: System, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await system.view.client.get(POWER_DOMAINS, name)).get("status", {})
    return found


async def has_condition(system: System, name: str, kind: str, status: str) -> None:
    found = {each["type"]: each for each in (await domain_status(system, name)).get("conditions", ())}
    assert found.get(kind, {}).get("status") == status, found


async def is_held(system: System, observer: PowerObserver, watts: float) -> None:
    assert observer.sums["row-1"] <= watts, (observer.sums, await domain_status(system, "row-1"))
    await has_condition(system, "row-1", "Held", "True")
    await has_condition(system, "row-1", "Enforced", "True")


async def sees(observer: PowerObserver, watts: float) -> None:
    assert observer.sums.get("row-1") == pytest.approx(watts), observer.sums
