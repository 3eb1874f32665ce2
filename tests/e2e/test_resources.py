"""The API server stores the custom resources, rejects invalid ones by field, and returns what was written."""

import asyncio
import json
from typing import Any

import pytest
from tests.e2e.view import ClusterView
from tests.e2e.waiting import eventually

from joulie_api.apply import Applier
from joulie_api.errors import ApiError, Invalid
from joulie_api.resources import (
    CRDS,
    NODE_BMCS,
    NODE_HARDWARES,
    NODE_POWER_PROFILES,
    NODE_SLEEP_POLICIES,
    NODE_TWINS,
    TELEMETRY_PROFILES,
    Resource,
)
from joulie_core.kinds import API_VERSION, KINDS
from joulie_devcluster.binaries.lookup import selected_kubernetes
from joulie_devcluster.binaries.modules import parse_release

pytestmark = pytest.mark.e2e

_VALUES_OF_RULES = parse_release(selected_kubernetes()) >= (1, 35)


def _object(resource: Resource, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": resource.kind, "metadata": {"name": name}, "spec": spec}


async def test_every_definition_is_established(bare: ClusterView) -> None:
    async def established() -> None:
        found = await bare.objects(CRDS)
        for kind in KINDS:
            conditions = found[f"{kind.plural}.joulie.io"]["status"]["conditions"]
            assert {"Established": "True", "NamesAccepted": "True"}.items() <= {
                condition["type"]: condition["status"] for condition in conditions
            }.items()

    await eventually(established, within_s=10)


@pytest.mark.parametrize(
    ("resource", "spec", "field"),
    [
        (NODE_POWER_PROFILES, {"nodeName": "bad", "profile": "turbo"}, "spec.profile"),
        (NODE_POWER_PROFILES, {"nodeName": "bad"}, "spec.profile"),
        (NODE_POWER_PROFILES, {"profile": "eco"}, "spec.nodeName"),
        (
            NODE_POWER_PROFILES,
            {"nodeName": "bad", "profile": "eco", "cpu": {"packagePowerCapPctOfMax": 0}},
            "spec.cpu.packagePowerCapPctOfMax",
        ),
        (
            NODE_POWER_PROFILES,
            {"nodeName": "bad", "profile": "eco", "cpu": {"packagePowerCapPctOfMax": 101}},
            "spec.cpu.packagePowerCapPctOfMax",
        ),
        (
            NODE_POWER_PROFILES,
            {"nodeName": "bad", "profile": "eco", "gpu": {"powerCap": {"capPctOfMax": 100.5}}},
            "spec.gpu.powerCap.capPctOfMax",
        ),
        (
            NODE_POWER_PROFILES,
            {"nodeName": "bad", "profile": "eco", "cpu": {"packagePowerCapWatts": -5}},
            "spec.cpu.packagePowerCapWatts",
        ),
        (TELEMETRY_PROFILES, {"target": {"scope": "rack"}}, "spec.target.scope"),
        (TELEMETRY_PROFILES, {"target": {"scope": "node"}}, "spec.target"),
        (
            TELEMETRY_PROFILES,
            {"target": {"scope": "cluster"}, "controls": {"cpu": {"type": "http"}}},
            "spec.controls.cpu",
        ),
    ],
)
async def test_a_bad_object_is_refused_with_the_field(
    bare: ClusterView, resource: Resource, spec: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        await bare.client.create(resource, _object(resource, "bad", spec))
    assert field in refusal.value.message


_WINDOW = {"days": ["Mon"], "start": "07:30", "end": "19:00", "minAwake": 3}
_REDFISH = {"protocol": "redfish", "address": "https://10.0.0.17", "credentialsSecretRef": {"name": "bmc"}}
_CAP = {"watts": 400, "expiresAt": "2030-01-01T00:00:00Z"}
_WOL = {"protocol": "wol", "address": "wol://10.0.0.255", "mac": "52:54:00:12:34:56"}


@pytest.mark.parametrize(
    ("spec", "field", "value", "way_out"),
    [
        ({"nodeSelector": {}}, "spec.nodeSelector", "0", "at least 1 properties"),
        ({"mode": "Sleep"}, "spec.mode", '"Sleep"', '"Observe", "Recommend", "Act"'),
        ({"maxAsleepPercent": 91}, "spec.maxAsleepPercent", "91", "less than or equal to 90"),
        (
            {"consolidation": {"belowPercent": 120}},
            "spec.consolidation.belowPercent",
            "120",
            "less than or equal to 100",
        ),
        ({"minAwake": {"count": -1}}, "spec.minAwake.count", "-1", "greater than or equal to 0"),
        ({"rates": {"waking": 0}}, "spec.rates.waking", "0", "greater than or equal to 1"),
        ({"idleSeconds": "10m"}, "spec.idleSeconds", "string", "must be of type integer"),
        ({"bootTimeoutSeconds": 100_000}, "spec.bootTimeoutSeconds", "100000", "less than or equal to 86400"),
        ({"schedules": [_WINDOW | {"start": "7:30"}]}, "spec.schedules[0].start", "7:30", "such as 07:30"),
        ({"schedules": [_WINDOW | {"end": "07:00"}]}, "spec.schedules[0]", "", "start must be before end"),
        ({"schedules": [_WINDOW | {"days": ["Monday"]}]}, "spec.schedules[0].days[0]", '"Monday"', '"Mon"'),
        ({"schedules": [_WINDOW | {"days": ["Mon", "Mon"]}]}, "spec.schedules[0].days[1]", '"Mon"', "Duplicate"),
        ({"schedules": [_WINDOW | {"timeZone": "Rome (IT)"}]}, "spec.schedules[0].timeZone", "Rome", "Europe/Rome"),
    ],
    ids=lambda value: "",
)
async def test_a_bad_sleep_policy_is_refused_with_field_value_and_way_out(
    bare: ClusterView, spec: dict[str, Any], field: str, value: str, way_out: str
) -> None:
    body = _object(NODE_SLEEP_POLICIES, "bad", {"nodeSelector": {"pool": "a"}} | spec)
    await _is_refused(bare, NODE_SLEEP_POLICIES, body, (field, value, way_out))


@pytest.mark.parametrize(
    ("spec", "field", "value", "way_out"),
    [
        (_REDFISH | {"nodeName": "other"}, "spec.nodeName", "", "must equal metadata.name"),
        (_REDFISH | {"protocol": "telnet"}, "spec.protocol", '"telnet"', '"redfish", "ipmi", "wol"'),
        (_REDFISH | {"address": "http://10.0.0.17"}, "spec.address", "http://10.0.0.17", "such as https://10.0.0.17"),
        (_REDFISH | {"address": "https://root:calvin@bmc"}, "spec.address", "", "without path, user and password"),
        (_REDFISH | {"address": "ipmi://10.0.0.17"}, "spec", "", "address is https://... for redfish"),
        (_REDFISH | {"system": "Systems/1"}, "spec.system", "Systems/1", "such as /redfish/v1/Systems/1"),
        (_REDFISH | {"powerOff": "Yes"}, "spec.powerOff", '"Yes"', '"Allowed", "Never"'),
        (_REDFISH | {"desiredPower": "Reset"}, "spec.desiredPower", '"Reset"', '"On", "Off", "Unmanaged"'),
        (_REDFISH | {"cap": {"watts": 400}}, "spec.cap.expiresAt", "", "Required value"),
        (_REDFISH | {"cap": _CAP | {"watts": 0}}, "spec.cap.watts", "0", "greater than 0"),
        (_REDFISH | {"cap": _CAP | {"expiresAt": "May"}}, "spec.cap.expiresAt", '"May"', "date-time"),
        ({key: _REDFISH[key] for key in ("protocol", "address")}, "spec", "", "credentialsSecretRef is required"),
        (_WOL | {"mac": "52-54-00-12-34-56"}, "spec.mac", "52-54-00", "such as 52:54:00:12:34:56"),
        (_WOL | {"powerOff": "Allowed"}, "spec", "", "powerOff must be Never"),
    ],
    ids=lambda value: "",
)
async def test_a_bad_bmc_is_refused_with_field_value_and_way_out(
    bare: ClusterView, spec: dict[str, Any], field: str, value: str, way_out: str
) -> None:
    body = _object(NODE_BMCS, "bad", {"nodeName": "bad"} | spec)
    await _is_refused(bare, NODE_BMCS, body, (field, value, way_out))


async def _is_refused(bare: ClusterView, resource: Resource, body: dict[str, Any], parts: tuple[str, str, str]) -> None:
    field, value, way_out = parts
    with pytest.raises(Invalid) as refusal:
        await bare.client.create(resource, body)
    print(refusal.value.message)
    assert f"{field}: " in refusal.value.message
    # Where a rule of CEL is broken, the API server names the type instead of the value before Kubernetes 1.35.
    named_by_type = not _VALUES_OF_RULES and 'Invalid value: "string": ' in refusal.value.message
    assert value in refusal.value.message or named_by_type
    assert way_out in refusal.value.message


async def test_a_misspelled_field_of_a_sleep_policy_is_named(bare: ClusterView) -> None:
    body = _object(NODE_SLEEP_POLICIES, "bad", {"nodeSelector": {"pool": "a"}, "minAwakes": {"count": 3}})
    # As kubectl sends it.
    query = (("fieldValidation", "Strict"),)
    with pytest.raises(ApiError, match=r'unknown field "spec\.minAwakes"'):
        await bare.client.request("POST", NODE_SLEEP_POLICIES.collection_path(), query=query, body=body)


async def test_the_name_of_the_node_cannot_change(bare: ClusterView) -> None:
    await bare.client.create(NODE_TWINS, _object(NODE_TWINS, "fixed", {"nodeName": "fixed"}))
    with pytest.raises(Invalid, match=r"spec\.nodeName.*immutable"):
        await bare.client.merge_patch(NODE_TWINS, "fixed", {"spec": {"nodeName": "other"}})


@pytest.mark.parametrize(
    ("resource", "spec", "status"),
    [
        (
            NODE_HARDWARES,
            {"nodeName": "round"},
            {
                "cpu": {
                    "model": "m",
                    "sockets": 2,
                    "totalCores": 64,
                    "capRange": {"minWattsPerSocket": 90, "maxWattsPerSocket": 280.5},
                },
                "gpu": {
                    "present": True,
                    "count": 8,
                    "devices": [{"uuid": "GPU-1", "index": 0, "min": 200, "max": 700.0}],
                },
                "memory": {"totalBytes": 2199023255552},
                "updatedAt": "2026-01-01T00:00:00Z",
            },
        ),
        (
            NODE_TWINS,
            {"nodeName": "round"},
            {
                "schedulableClass": "draining",
                "predictedPowerHeadroomScore": -12,
                "predictedCoolingStressScore": 72.0,
                "estimatedPUE": 1.25,
                "effectiveCapState": {"cpuPct": 60, "gpuPct": 100},
                "powerMeasurement": {
                    "source": "agent",
                    "quality": "measured",
                    "measuredNodePowerW": 450,
                    "powerTrendWPerMin": -5.2,
                },
                "lastUpdated": "2026-01-01T00:00:00Z",
            },
        ),
        (
            TELEMETRY_PROFILES,
            {"target": {"scope": "node", "nodeName": "round"}},
            {
                "control": {
                    "cpu": {"backend": "rapl", "result": "applied", "requestedWatts": 150, "enforcedWatts": 150.0}
                }
            },
        ),
        (
            NODE_POWER_PROFILES,
            {"nodeName": "round", "profile": "eco"},
            {"conditions": [{"type": "Planned", "status": "True", "reason": "Policy", "observedGeneration": 1}]},
        ),
    ],
    ids=lambda value: value.kind if isinstance(value, Resource) else "",
)
async def test_a_status_survives_the_round_trip(
    bare: ClusterView, resource: Resource, spec: dict[str, Any], status: dict[str, Any]
) -> None:
    applier = Applier(bare.client, "round-trip")
    body = _object(resource, "round", spec)
    await applier.apply(resource, "round", body)
    body.pop("spec")
    await applier.apply(resource, "round", {**body, "status": status}, status=True)
    stored = json.loads(await bare.client.get(resource, "round"))["status"]
    assert _without_defaults(stored, status) == status


def _without_defaults(stored: Any, written: Any) -> Any:
    """`stored` reduced to the fields that were written: the server may add defaults of its own."""
    if isinstance(written, dict):
        return {key: _without_defaults(stored.get(key), value) for key, value in written.items()}
    if isinstance(written, list):
        return [_without_defaults(kept, value) for kept, value in zip(stored, written, strict=True)]
    return stored


async def test_two_managers_of_one_object_do_not_undo_each_other(bare: ClusterView) -> None:
    operator, agent = Applier(bare.client, "joulie-operator"), Applier(bare.client, "joulie-agent")
    body = _object(TELEMETRY_PROFILES, "shared", {"target": {"scope": "node", "nodeName": "shared"}})
    await operator.apply(TELEMETRY_PROFILES, "shared", body)
    report = {"apiVersion": API_VERSION, "kind": "TelemetryProfile", "metadata": {"name": "shared"}}
    await agent.apply(
        TELEMETRY_PROFILES, "shared", {**report, "status": {"control": {"cpu": {"result": "blocked"}}}}, status=True
    )
    await asyncio.gather(*(operator.apply(TELEMETRY_PROFILES, "shared", body) for _ in range(3)))
    stored = json.loads(await bare.client.get(TELEMETRY_PROFILES, "shared"))
    assert stored["status"]["control"]["cpu"]["result"] == "blocked"
    assert stored["spec"]["target"]["nodeName"] == "shared"
