"""Power domains on a real API server: what is refused there, what is observed, and what is written to limit nodes."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.plugin import Plugin
from tests.e2e.system import System
from tests.e2e.waiting import eventually

from joulie_api.apply import FencedWriter
from joulie_api.errors import Invalid
from joulie_api.resources import NODE_BMCS, NODE_POWER_PROFILES, POWER_DOMAINS
from joulie_core.labels import HW_GPU_COUNT, MANAGED, RACK
from joulie_core.timestamps import rfc3339
from joulie_testing.api import make_node_bmc

pytestmark = pytest.mark.e2e

_PAGE = Path(__file__).parents[2] / "docs" / "power-budgets.md"
_EXAMPLE = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Two nodes of two EPYC 9654 each, 360 W a package.
_RACK_NODES = ("epyc-9654-0", "epyc-9654-1")
#: Watts that the BMCs of a rack read beyond the devices' power.
_REST_W = 150.0
_TIGHT_NODES = ("xeon-8480-0", "xeon-8480-1")


def _domain(name: str, **spec: Any) -> dict[str, Any]:
    fields = {"limitWatts": 1_000, "onLostControl": "KeepGuaranteed", **spec}
    return {
        "apiVersion": POWER_DOMAINS.api_version,
        "kind": "PowerDomain",
        "metadata": {"name": name},
        "spec": fields,
    }


async def _is_refused(system: System, body: dict[str, Any], text: str) -> None:
    with pytest.raises(Invalid) as refusal:
        await system.view.client.create(POWER_DOMAINS, body)
    assert text in refusal.value.message


async def _status(system: System, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await system.view.client.get(POWER_DOMAINS, name)).get("status", {})
    assert found, f"{name} is not observed"
    return found


async def _condition(system: System, name: str, kind: str) -> tuple[str, str]:
    each = {each["type"]: each for each in (await _status(system, name))["conditions"]}[kind]
    return each["status"], each["reason"]


@pytest.mark.system(
    operator={"POWER_DOMAINS": "Observe", "POLICY_TYPE": "static_partition"}, agent={"RECONCILE_INTERVAL": "2s"}
)
async def test_a_tree_is_observed_with_its_faults_and_nothing_is_lowered(system: System) -> None:
    await _faults_are_refused(system)
    client = system.view.client

    async def measured() -> None:
        for node in (*_RACK_NODES, *_TIGHT_NODES):
            assert (await system.view.twin(node))["powerMeasurement"]["quality"] == "measured"

    await eventually(measured, within_s=60)
    for nodes, rack in ((_RACK_NODES, "rack-1"), (_TIGHT_NODES, "tight")):
        for node in nodes:
            # Their hardware is stated by labels, and that there are no GPUs has to be.
            await system.view.label(node, {RACK: rack, HW_GPU_COUNT: "0"})
    before = await _targets(system)
    # The example of the page, and a domain that cannot hold its nodes.
    example, breaker = _EXAMPLE.findall(_PAGE.read_text())
    await client.create(POWER_DOMAINS, _domain("rated", **yaml.safe_load(breaker)["spec"]))
    await client.delete(POWER_DOMAINS, "rated")
    # One floor fits, as far as the API server sees; those of both nodes do not.
    tight = _domain("tight", nodeSelector={RACK: "tight"}, limitWatts=900, floor={"wattsPerNode": 500})
    for each in (*yaml.safe_load_all(example), tight):
        await client.create(POWER_DOMAINS, each)
    for name, parent in (("x", "y"), ("y", "x")):
        await client.create(POWER_DOMAINS, _domain(name, parent=parent))

    await eventually(lambda: _is_observed(system), within_s=60)
    await _is_shown(system)
    assert await _targets(system) == before
    await _counts_servers_by_their_bmcs(system)
    await _follows_a_node_that_leaves_management(system)


async def _faults_are_refused(system: System) -> None:
    for spec, text in (
        ({"mode": "Shed"}, 'Unsupported value: "Shed"'),
        ({"basis": "Racks"}, 'supported values: "Devices", "Server"'),
        ({"parent": "bad"}, "parent must be another PowerDomain"),
        ({"parent": "Row A"}, "must be the name of a PowerDomain"),
        ({"reserveWatts": 1_000}, "reserveWatts must be below limitWatts"),
        ({"nodeSelector": {"a": "b"}, "floor": {"wattsPerNode": 1_001}}, "must not be above limitWatts"),
        ({"priority": 3}, "floor and priority need a nodeSelector"),
        ({"oversubscription": _breaker((130, 60), (200, 90))}, "a higher load must have a shorter time"),
        ({"oversubscription": _breaker((100, 60))}, "should be greater than or equal to 101"),
    ):
        await _is_refused(system, _domain("bad", **spec), text)


def _breaker(*points: tuple[int, int]) -> dict[str, Any]:
    curve = [{"loadPercent": load, "seconds": seconds} for load, seconds in points]
    return {"breaker": curve, "coolingSeconds": 600}


async def _targets(system: System) -> dict[str, Any]:
    """Return the caps of every node, as its agent is told them."""
    return {name: each["spec"].get("cpu") for name, each in (await system.view.objects(NODE_POWER_PROFILES)).items()}


async def _is_observed(system: System) -> None:
    rack = await _status(system, "rack-1")
    assert (rack["mode"], rack["nodes"], rack["unknownNodes"]) == ("Observe", 2, 0)
    assert rack["allocatedWatts"] == rack["inForceWatts"] > 0
    assert rack["drawn"]["measuredNodes"] == 2
    assert 0 < rack["drawn"]["measuredWatts"] <= rack["inForceWatts"]
    assert await _condition(system, "rack-1", "Held") == ("True", "WithinLimit")
    assert (await _status(system, "feed-1"))["nodes"] == 2
    tight = await _status(system, "tight")
    assert tight["allocatedWatts"] <= 900 < tight["inForceWatts"]
    assert tight["limitedNodes"] == 2
    assert await _condition(system, "tight", "Held") == ("False", "AboveLimit")
    assert await _condition(system, "tight", "Enforced") == ("False", "Observe")
    assert await _condition(system, "tight", "FloorsFit") == ("False", "FloorsDoNotFit")
    (floors,) = [
        each["message"] for each in (await _status(system, "tight"))["conditions"] if each["type"] == "FloorsFit"
    ]
    assert "floors of 1000 W do not fit into 900 W" in floors
    assert await _condition(system, "x", "Accepted") == ("False", "Cycle")


async def _is_shown(system: System) -> None:
    plugin = Plugin(system.stack.cluster.kubeconfig)
    table = await plugin.run("power")
    assert "nothing is lowered" in " ".join(table.split())
    assert [each.split()[0] for each in table.splitlines()[1:6]] == ["feed-1", "rack-1", "tight", "x", "y"]
    assert "mode Observe lowers nothing" in " ".join((await plugin.run("power", "rack-1")).split())
    metrics = await system.operator.metrics()
    assert 'joulie_operator_power_domain_limit_watts{domain="tight"} 900.0' in metrics
    assert 'joulie_operator_power_domains{accepted="false"} 2.0' in metrics


async def _counts_servers_by_their_bmcs(system: System) -> None:
    client = system.view.client
    devices = (await _status(system, "rack-1"))["inForceWatts"]
    await client.merge_patch(POWER_DOMAINS, "rack-1", {"spec": {"basis": "Server"}})

    async def modelled() -> None:
        status = await _status(system, "rack-1")
        assert "rest" in status
        assert status["rest"]["modelledNodes"] == 2
        assert status["rest"]["modelledLeastWatts"] < status["rest"]["watts"]
        assert status["inForceWatts"] - devices == status["rest"]["watts"]
        assert status["drawn"]["modelledNodes"] == 2

    await eventually(modelled, within_s=60)
    outofband = FencedWriter(client, "joulie-outofband")
    for node in _RACK_NODES:
        await client.create(NODE_BMCS, make_node_bmc(node))

    async def read(factor: float, watts: float) -> dict[str, Any]:
        for node in _RACK_NODES:
            drawn = (await system.view.twin(node))["powerMeasurement"]["measuredNodePowerW"]
            status = {"powerWatts": factor * drawn + watts, "sampledAt": rfc3339(time.time())}
            await outofband.apply(NODE_BMCS, node, {"status": status}, status=True)
        return await _status(system, "rack-1")

    async def measured() -> None:
        status = await read(1.0, _REST_W)
        assert status["rest"]["measuredNodes"] == 2
        assert status["drawn"]["measuredNodes"] == 2
        # More than is read at low load: losses of full load, and the error of the reading.
        assert 2 * _REST_W < status["rest"]["watts"] < 2 * (_REST_W + 100)
        assert status["inForceWatts"] - devices == status["rest"]["watts"]

    await eventually(measured, within_s=120)
    before = (await _status(system, "rack-1"))["rest"]["watts"]

    async def not_believed() -> None:
        status = await read(0.5, 0.0)
        assert status["rest"]["modelledNodes"] == 2
        assert status["rest"]["watts"] > before

    await eventually(not_believed, within_s=60)
    await eventually(measured, within_s=120)
    shown = await Plugin(system.stack.cluster.kubeconfig).run("power", "rack-1")
    assert "of 2 nodes by their BMCs" in " ".join(shown.split())


async def _follows_a_node_that_leaves_management(system: System) -> None:
    await system.view.label(_TIGHT_NODES[0], {MANAGED: None})

    async def unknown() -> None:
        status = await _status(system, "tight")
        assert (status["nodes"], status["unknownNodes"]) == (2, 1)
        assert "inForceWatts" not in status

    await eventually(unknown, within_s=60)
    assert await _condition(system, "tight", "Held") == ("Unknown", "PowerUnknown")
