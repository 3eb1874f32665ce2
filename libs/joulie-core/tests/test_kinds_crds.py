import json
from typing import Annotated, Any

import celpy
import jsonschema
import pytest
from pydantic import Field, ValidationError

from joulie_core.kinds import (
    Adjustment,
    NodeBMC,
    NodeHardware,
    NodePowerProfile,
    NodeSleepPolicy,
    NodeTwin,
    TelemetryProfile,
)
from joulie_core.kinds.balloons_policy import BalloonsPolicy
from joulie_core.kinds.base import Column, Model
from joulie_core.kinds.crds import RESOURCES, CrdError, manifest, manifests, structural_schema
from joulie_core.kinds.power_domain import PowerDomain
from joulie_core.kinds.power_event import PowerEvent

#: What the API server understands in a structural schema, as far as it is used here.
KEYWORDS = {
    "description",
    "type",
    "format",
    "enum",
    "required",
    "properties",
    "additionalProperties",
    "items",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "maxItems",
    "maxProperties",
    "minItems",
    "minProperties",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
}
TYPES = {"object", "array", "string", "number", "integer", "boolean"}


def schema_of(resource):
    (version,) = manifest(resource)["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]


def walk(schema, path=""):
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            yield from walk(schema[keyword], f"{path}[]")


def leaf(schema, path):
    for part in path.split(".")[1:]:
        schema = schema["properties"][part]
    return schema


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda each: each.info.kind)
def test_schemas_are_structural(resource):
    for path, schema in walk(schema_of(resource)):
        assert set(schema) <= KEYWORDS, path
        assert (schema.get("type") in TYPES) != schema.get("x-kubernetes-int-or-string", False), path
        assert set(schema.get("required", ())) <= set(schema.get("properties", {})), path
        assert isinstance(schema.get("exclusiveMinimum", True), bool), path
        kind = schema.get("type")
        if kind == "object" and path != ".metadata":
            contents = ("properties", "additionalProperties", "x-kubernetes-preserve-unknown-fields")
            assert sum(content in schema for content in contents) == 1, path
        if kind == "array":
            assert schema["maxItems"] > 0, path
        if kind == "number":
            assert schema["format"] == "double", path
        if kind == "integer":
            assert schema["format"] == "int64", path


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda each: each.info.kind)
def test_printer_columns_point_at_fields_of_their_type(resource):
    schema = schema_of(resource)
    for column in resource.info.columns:
        if column.path.startswith(".metadata"):
            continue
        field = leaf(schema, column.path)
        assert field["type"] == {"date": "string"}.get(column.type, column.type), column


def test_conditions_are_a_map_by_type():
    conditions = leaf(schema_of(NodePowerProfile), ".status.conditions")
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert "type" in conditions["items"]["required"]


def test_manifests_are_plain_json_and_the_same_every_time():
    assert json.dumps(manifests()) == json.dumps(manifests())
    assert sorted(manifests()) == [
        "joulie.io_adjustments.yaml",
        "joulie.io_balloonspolicies.yaml",
        "joulie.io_nodebmcs.yaml",
        "joulie.io_nodehardwares.yaml",
        "joulie.io_nodepowerbudgets.yaml",
        "joulie.io_nodepowerprofiles.yaml",
        "joulie.io_nodesleeppolicies.yaml",
        "joulie.io_nodetwins.yaml",
        "joulie.io_powerdomains.yaml",
        "joulie.io_powerevents.yaml",
        "joulie.io_telemetryprofiles.yaml",
        "joulie.io_templatepolicies.yaml",
        "joulie.io_topologyawarepolicies.yaml",
    ]


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda each: each.info.kind)
def test_kinds_are_cluster_scoped_with_status_and_names(resource):
    spec = manifest(resource)["spec"]
    assert spec["scope"] == "Cluster"
    assert spec["names"]["shortNames"] == [resource.info.short_name]
    assert spec["names"]["categories"] == ["joulie"]
    assert spec["versions"][0]["subresources"] == {"status": {}}


def test_every_description_is_written():
    for resource in RESOURCES:
        for path, schema in walk(schema_of(resource)):
            if schema.get("type") == "object" and path != ".metadata" and "properties" in schema:
                assert schema["description"], path


class Tree(Model):
    children: Annotated[tuple["Tree", ...], Field(max_length=2)] = ()


@pytest.mark.parametrize(
    "annotation",
    [int | str, tuple[Annotated[str, Field(max_length=3)], int], Any, list[int], str, dict[str, Any], Tree],
    ids=str,
)
def test_what_has_no_structural_form_is_refused_with_its_path(annotation):
    class Bad(Model):
        some_field: annotation

    with pytest.raises(CrdError, match=r"Bad\.someField"):
        structural_schema(Bad)


# --- the same invariants at the API server and in the models ----------------------------------------------------------

HTTP = {"endpoint": "http://localhost:18080/control/{node}"}
PROMETHEUS = {"endpoint": "https://prometheus:9090", "query": "sum(power{node='{node}'})"}


def npp(**spec):
    return NodePowerProfile, {"spec": {"nodeName": "n1", "profile": "eco"} | spec}


def tp(target=None, **spec):
    return TelemetryProfile, {"spec": {"target": target or {"scope": "node", "nodeName": "n1"}} | spec}


def nt(**status):
    return NodeTwin, {"spec": {"nodeName": "n1"}, "status": status}


def nhw(**status):
    return NodeHardware, {"spec": {"nodeName": "n1"}, "status": status}


#: Fields of a server that Wake-on-LAN reaches.
WOL = {
    "protocol": "wol",
    "address": "wol://10.0.0.255",
    "mac": "52:54:00:12:34:56",
    "credentialsSecretRef": None,
}


def nbmc(status=None, **spec):
    required = {"nodeName": "n1", "protocol": "redfish", "address": "https://10.0.0.1"}
    fields = required | {"credentialsSecretRef": {"name": "bmc"}} | spec
    document = {"spec": {name: value for name, value in fields.items() if value is not None}}
    return NodeBMC, document if status is None else document | {"status": status}


def nsp(**spec):
    return NodeSleepPolicy, {"spec": {"nodeSelector": {"pool": "a"}} | spec}


def window(**changes):
    return nsp(schedules=[{"days": ["Mon"], "start": "07:30", "end": "24:00", "minAwake": 3} | changes])


def pdom(**spec):
    fields = {"limitWatts": 10_000, "onLostControl": "KeepGuaranteed", "nodeSelector": {"rack": "a"}} | spec
    return PowerDomain, {"spec": {name: value for name, value in fields.items() if value is not None}}


def breaker(*points, **fields):
    curve = [{"loadPercent": load, "seconds": seconds} for load, seconds in points]
    return pdom(oversubscription={"breaker": curve, "coolingSeconds": 600} | fields)


def pevt(**spec):
    fields = {"domain": "row-1", "limitWatts": 500, "end": "2026-11-28T18:00:00Z"} | spec
    return PowerEvent, {"spec": {name: value for name, value in fields.items() if value is not None}}


def measurement(**fields):
    return nt(powerMeasurement={"source": "agent", "quality": "measured"} | fields)


def balloons(*expressions, **options):
    types = [{"name": "a", "matchExpressions": list(expressions)}]
    return BalloonsPolicy, {"spec": {"reservedResources": {"cpu": "1"}, "balloonTypes": types} | options}


def condition(**fields):
    kind, document = npp()
    return kind, document | {"status": {"conditions": [{"type": "Planned", "status": "True"} | fields]}}


GOOD = {
    "eco": npp(),
    "performance": npp(profile="performance", draining=False),
    "integer watts": npp(cpu={"packagePowerCapWatts": 120}),
    "float watts": npp(cpu={"packagePowerCapWatts": 120.0}),
    "fractional watts": npp(cpu={"packagePowerCapWatts": 120.5}),
    "full percent": npp(cpu={"packagePowerCapPctOfMax": 100}),
    "small percent": npp(cpu={"packagePowerCapPctOfMax": 0.5}),
    "watts and percent": npp(gpu={"powerCap": {"scope": "perGpu", "capWattsPerGpu": 300, "capPctOfMax": 60}}),
    "empty stanza": npp(cpu={}, gpu={}),
    "policy": npp(policy={"name": "static_partition", "reason": "rank 3 of 12"}),
    "condition": condition(lastTransitionTime="2025-01-02T03:04:05Z", observedGeneration=3),
    "node scope": tp(),
    "cluster scope": tp({"scope": "cluster", "nodeSelector": {"joulie.io/rack": "r1"}}),
    "cluster scope for all": tp({"scope": "cluster"}),
    "http source": tp(sources={"cpu": {"type": "http", "http": HTTP}}),
    "http timeout at its bounds": tp(
        sources={
            "cpu": {"type": "http", "http": HTTP | {"timeoutSeconds": 1}},
            "gpu": {"type": "http", "http": HTTP | {"timeoutSeconds": 300}},
        },
    ),
    "prometheus source": tp(sources={"cpu": {"type": "prometheus", "prometheus": PROMETHEUS}}),
    "control without type": tp(controls={"cpu": {"mode": "dvfs"}}),
    "source without type": tp(sources={"cpu": {}}),
    "http control": tp(controls={"gpu": {"type": "http", "mode": "powercap", "http": HTTP}}),
    "negative headroom": nt(predictedPowerHeadroomScore=-250),
    "class": nt(schedulableClass="draining", lastUpdated="2025-01-02T03:04:05.123456Z"),
    "measurement": measurement(measuredNodePowerW=450, powerTrendWPerMin=-5.2, nodeTdpW=2000.0),
    "conditions on containers": balloons(
        {"operator": "AlwaysTrue"},
        {"key": "name", "operator": "Exists"},
        {"key": "pod/labels/app", "operator": "Equals", "values": ["web"]},
        {"key": "namespace", "operator": "In", "values": ["a", "b"]},
    ),
    "CPU class": balloons(cpuClasses=[{"name": "a", "maxFreq": 2_400_000}, {"name": "b", "maxFreq": "2.4GHz"}]),
    "CPU class as a resource": balloons(cpuClasses=[{"name": "night.1_b-c", "publishExtendedResource": True}]),
    "CPU class of any name": balloons(cpuClasses=[{"name": "at night", "publishExtendedResource": False}]),
    "CPU class of a resource at its longest": balloons(
        cpuClasses=[{"name": "n" * 57, "publishExtendedResource": True}]
    ),
    "BMC": nbmc(),
    "BMC by name and port": nbmc(address="https://bmc-17.example.org:8443", system="/redfish/v1/Systems/1"),
    "BMC at an IPv6 address": nbmc(address="https://[fd00::17]:443", caSecretRef={"name": "ca"}),
    "BMC by IPMI": nbmc(protocol="ipmi", address="ipmi://10.0.0.17:623"),
    "server that Wake-on-LAN reaches": nbmc(**WOL),
    "BMC that powers off": nbmc(powerOff="Allowed", desiredPower="Off"),
    "power that is desired and not allowed": nbmc(powerOff="Never", desiredPower="Off"),
    "cap of a server": nbmc(cap={"watts": 400, "expiresAt": "2030-01-31T12:00:00Z"}),
    "status of a BMC": nbmc({"powerState": "PoweringOn", "powerWatts": 344.5, "recentBoots": [480.0, 510.5]}),
    "sleep policy": nsp(),
    "sleep policy with everything": nsp(mode="Act", minAwake={"count": 0, "spare": 0}, rates={"waking": 1}),
    "window": window(),
    "window in a time zone": window(timeZone="America/Argentina/Buenos_Aires"),
    "window in a zone of a fixed offset": window(timeZone="Etc/GMT+3"),
    "breaker": breaker((130, 60)),
    "curve of a breaker in any order": breaker((200, 20), (105, 7_200), (130, 60), (130, 60), reactionSeconds=8),
    "power event": pevt(),
    "power event that stands": pevt(end=None, standing=True),
    "power event with everything": pevt(
        start="2026-11-28T17:00:00Z",
        rampDownSeconds=60,
        rampUpSeconds=86_400,
        priority=3,
        mayAffect=["standard"],
        baseline="LastHour",
        ifSourceLost="Limit",
        sourceTimeoutSeconds=30,
        sourceLostLimitWatts=0,
        sourceRenewed="2026-11-28T16:59:59.123456Z",
        sourceRef="event-7",
    ),
    "power event by a share of its baseline": pevt(limitWatts=None, reduceByPercent=30, baseline="SameHoursOfDays"),
    "power event that ends when its source is lost": pevt(ifSourceLost="Release", sourceTimeoutSeconds=86_400),
    "timeout of a source that is to be kept": pevt(ifSourceLost="KeepUntilEnd", sourceTimeoutSeconds=60),
    "power event with an offset": pevt(end="2026-11-28T18:00:00+01:00"),
    "standing: false": pevt(standing=False),
    "power domain": pdom(),
    "power domain above others": pdom(nodeSelector=None, reserveWatts=9_999),
    "power domain with everything": pdom(
        parent="row", floor={"wattsPerNode": 300}, priority=-5, basis="Devices", onLostControl="Release", mode="Observe"
    ),
    "floor of all that nodes may get": pdom(reserveWatts=1_000, floor={"wattsPerNode": 9_000}),
    "floor as a share": pdom(floor={"percentOfMax": 40.5}),
    "hardware": nhw(cpu={"totalCores": 128, "capRange": {"minWattsPerSocket": 100, "maxWattsPerSocket": 350}}),
}
BAD = {
    "power event without a domain": pevt(domain=None),
    "power event without a limit": pevt(limitWatts=None),
    "power event with two limits": pevt(reduceByPercent=30, baseline="LastHour"),
    "power event below 0": pevt(limitWatts=-1),
    "share without a baseline": pevt(limitWatts=None, reduceByPercent=30),
    "share of the baseline None": pevt(limitWatts=None, reduceByPercent=30, baseline="None"),
    "share of nothing": pevt(limitWatts=None, reduceByPercent=0, baseline="LastHour"),
    "power event without an end": pevt(end=None),
    "power event that stands and ends": pevt(standing=True),
    "power event that neither stands nor ends": pevt(end=None, standing=False),
    "power event that ends before it starts": pevt(start="2026-11-28T18:00:01Z"),
    "power event that ends when it starts": pevt(start="2026-11-28T18:00:00Z"),
    "power event that affects nothing": pevt(mayAffect=[]),
    "power event that affects an unknown class": pevt(mayAffect=["batch"]),
    "ramp below 0": pevt(rampDownSeconds=-1),
    "ramp of more than a day": pevt(rampUpSeconds=86_401),
    "priority below the most important": pevt(priority=-1),
    "lost source without a timeout": pevt(ifSourceLost="Release"),
    "lost source without its limit": pevt(ifSourceLost="Limit", sourceTimeoutSeconds=60),
    "limit of a lost source that is released": pevt(
        ifSourceLost="Release", sourceTimeoutSeconds=60, sourceLostLimitWatts=1
    ),
    "timeout of a second": pevt(ifSourceLost="Release", sourceTimeoutSeconds=1),
    "long name at the source": pevt(sourceRef="x" * 254),
    "power domain without a limit": pdom(limitWatts=None),
    "power domain with a limit of 0": pdom(limitWatts=0),
    "power domain with half a watt": pdom(limitWatts=1000.5),
    "power domain that does not say what happens on lost control": pdom(onLostControl=None),
    "reserve as large as the limit": pdom(reserveWatts=10_000),
    "floor without nodes": pdom(nodeSelector=None, floor={"wattsPerNode": 300}),
    "priority without nodes": pdom(nodeSelector=None, priority=0),
    "selector of all nodes": pdom(nodeSelector={}),
    "floor twice": pdom(floor={"wattsPerNode": 300, "percentOfMax": 40}),
    "floor of nothing": pdom(floor={}),
    "floor above what nodes may get": pdom(reserveWatts=1_000, floor={"wattsPerNode": 9_001}),
    "parent that is no name": pdom(parent="Row A"),
    "unknown basis": pdom(basis="Racks"),
    "unknown mode of a domain": pdom(mode="Shed"),
    "condition without key": balloons({"key": "name", "operator": "Exists"}, {"operator": "Exists"}),
    "condition with an empty key": balloons({"key": "", "operator": "Exists"}),
    "condition without value": balloons({"key": "name", "operator": "Equals"}),
    "condition with two values": balloons({"key": "name", "operator": "MatchesNot", "values": ["a", "b"]}),
    "unknown operator": balloons({"key": "name", "operator": "Like", "values": ["a"]}),
    "Speed Select": balloons(cpuClasses=[{"name": "a"}, {"name": "b", "pctPriority": "high"}]),
    "Speed Select by its class": balloons(cpuClasses=[{"name": "b", "sstClosID": 0}]),
    "CPU class that is no name of a resource": balloons(cpuClasses=[{"name": "a b", "publishExtendedResource": True}]),
    "CPU class too long for a resource": balloons(cpuClasses=[{"name": "n" * 58, "publishExtendedResource": True}]),
    "limit of one tier of memory": (Adjustment, {"spec": {"toptierLimit": "1Gi"}}),
    "unknown profile": npp(profile="turbo"),
    "profile missing": (NodePowerProfile, {"spec": {"nodeName": "n1"}}),
    "nodeName missing": (NodePowerProfile, {"spec": {"profile": "eco"}}),
    "nodeName empty": npp(nodeName=""),
    "spec missing": (NodePowerProfile, {}),
    "cpu percent 0": npp(cpu={"packagePowerCapPctOfMax": 0}),
    "cpu percent 101": npp(cpu={"packagePowerCapPctOfMax": 101}),
    "cpu watts 0": npp(cpu={"packagePowerCapWatts": 0}),
    "cpu watts as text": npp(cpu={"packagePowerCapWatts": "many"}),
    "gpu percent 0": npp(gpu={"powerCap": {"capPctOfMax": 0}}),
    "gpu percent 101": npp(gpu={"powerCap": {"capPctOfMax": 101}}),
    "gpu scope": npp(gpu={"powerCap": {"scope": "perNode"}}),
    "condition status": condition(status="Maybe"),
    "scope missing": tp({"nodeName": "n1"}),
    "scope node without nodeName": tp({"scope": "node"}),
    "scope node with selector": tp({"scope": "node", "nodeName": "n1", "nodeSelector": {"a": "b"}}),
    "scope cluster with nodeName": tp({"scope": "cluster", "nodeName": "n1"}),
    "http source without endpoint": tp(sources={"cpu": {"type": "http"}}),
    "endpoint without scheme": tp(sources={"cpu": {"type": "http", "http": {"endpoint": "localhost:18080"}}}),
    "timeout 0": tp(sources={"cpu": {"type": "http", "http": HTTP | {"timeoutSeconds": 0}}}),
    "timeout 301": tp(sources={"cpu": {"type": "http", "http": HTTP | {"timeoutSeconds": 301}}}),
    "prometheus without query": tp(sources={"gpu": {"type": "prometheus", "prometheus": {"endpoint": "http://p"}}}),
    "prometheus without stanza": tp(sources={"gpu": {"type": "prometheus", "http": HTTP}}),
    "http cpu control without endpoint": tp(controls={"cpu": {"type": "http"}}),
    "http gpu control without endpoint": tp(controls={"gpu": {"type": "http"}}),
    "unknown control mode": tp(controls={"cpu": {"type": "host", "mode": "magic"}}),
    "unknown source": tp(sources={"cpu": {"type": "ipmi"}}),
    "unknown class": nt(schedulableClass="fast"),
    "cooling above 100": nt(predictedCoolingStressScore=100.1),
    "headroom above 100": nt(predictedPowerHeadroomScore=101),
    "PUE below 1": nt(estimatedPUE=0.9),
    "negative power": measurement(measuredNodePowerW=-1),
    "unknown quality": measurement(quality="guessed"),
    "unknown protocol": nbmc(protocol="telnet"),
    "Wake-on-LAN without a MAC address": nbmc(**WOL | {"mac": None}),
    "Wake-on-LAN that powers off": nbmc(**WOL, powerOff="Allowed"),
    "Wake-on-LAN with credentials": nbmc(**WOL | {"credentialsSecretRef": {"name": "bmc"}}),
    "BMC without a Secret": nbmc(credentialsSecretRef=None),
    "BMC with a MAC address": nbmc(mac="52:54:00:12:34:56"),
    "IPMI at the address of Redfish": nbmc(protocol="ipmi"),
    "Redfish at the address of IPMI": nbmc(address="ipmi://10.0.0.17"),
    "BMC without TLS": nbmc(address="http://10.0.0.1"),
    "password in the address": nbmc(address="https://root:calvin@10.0.0.1"),
    "address with a path": nbmc(address="https://10.0.0.1/redfish/v1"),
    "BMC without credentials": nbmc(credentialsSecretRef={}),
    "system on another host": nbmc(system="https://10.0.0.2/redfish/v1/Systems/1"),
    "unknown desired power": nbmc(desiredPower="Reset"),
    "cap of 0 W": nbmc(cap={"watts": 0, "expiresAt": "2030-01-31T12:00:00Z"}),
    "cap without an end": nbmc(cap={"watts": 400}),
    "more boots than are kept": nbmc({"recentBoots": [1.0] * 21}),
    "MAC address with dashes": nbmc(**WOL | {"mac": "52-54-00-12-34-56"}),
    "address with a blank": nbmc(address="https://10.0.0.1 "),
    "address with a line feed": nbmc(address="https://10.0.0.1\n"),
    "sleep policy for all nodes": nsp(nodeSelector={}),
    "unknown mode": nsp(mode="Sleep"),
    "nearly all of a zone": nsp(maxAsleepPercent=91),
    "duration with a unit": nsp(idleSeconds="10m"),
    "window of one digit": window(start="7:30"),
    "window after midnight": window(start="24:30"),
    "window with a line feed": window(start="0:30\n"),
    "breaker without a curve": breaker(),
    "breaker that does not cool": breaker((130, 60), coolingSeconds=0),
    "breaker that carries more for longer": breaker((130, 60), (200, 90)),
    "two times of one load": breaker((130, 60), (130, 90)),
    "two loads of one time": breaker((130, 60), (140, 60)),
    "breaker of no overload": breaker((100, 60)),
    "curve of too many points": breaker(*((101 + number, 1000 - number) for number in range(17))),
    "reaction that no agent keeps up with": breaker((130, 60), reactionSeconds=7),
    "window that ends before it starts": window(end="07:00"),
    "window of an unknown day": window(days=["Monday"]),
    "time zone with a blank": window(timeZone="Europe Rome"),
    "empty time zone": window(timeZone=""),
    "negative cores": nhw(cpu={"totalCores": -1}),
    "half a GPU": nhw(gpu={"count": 0.5}),
}


def boolean_bounds_as_numbers(schema):
    """JSON Schema's later drafts want exclusiveMinimum as a number; draft 4 and OpenAPI as a boolean."""
    return jsonschema.Draft4Validator(schema)


def rules_broken(schema, document, old=None):
    """Evaluate every CEL rule whose part of the document is present; transition rules need the old document."""
    for rule in schema.get("x-kubernetes-validations", ()):
        if "oldSelf" in rule["rule"] and old is None:
            continue
        environment = celpy.Environment()
        program = environment.program(environment.compile(rule["rule"]))
        activation = {"self": celpy.json_to_cel(document)}
        if old is not None:
            activation["oldSelf"] = celpy.json_to_cel(old)
        if not program.evaluate(activation):
            yield rule["message"]
    if isinstance(document, dict):
        for name, child in schema.get("properties", {}).items():
            if name in document:
                yield from rules_broken(child, document[name], None if old is None else old.get(name))
    if isinstance(document, list):
        for each in document:
            yield from rules_broken(schema["items"], each)


def accepted_by_schema(resource, document):
    schema = schema_of(resource)
    whole = {"apiVersion": "joulie.io/v1alpha1", "kind": resource.info.kind, "metadata": {"name": "n1"}} | document
    return boolean_bounds_as_numbers(schema).is_valid(whole) and not list(rules_broken(schema, whole))


def accepted_by_model(resource, document):
    try:
        resource.model_validate(document)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize(("resource", "document"), GOOD.values(), ids=GOOD)
def test_good_documents_pass_schema_and_model(resource, document):
    assert accepted_by_schema(resource, document)
    assert accepted_by_model(resource, document)


@pytest.mark.parametrize(("resource", "document"), BAD.values(), ids=BAD)
def test_bad_documents_fail_schema_and_model(resource, document):
    assert not accepted_by_schema(resource, document)
    assert not accepted_by_model(resource, document)


@pytest.mark.parametrize(("resource", "document"), GOOD.values(), ids=GOOD)
def test_what_a_model_writes_passes_the_schema_and_reads_back(resource, document):
    model = resource.model_validate(document)
    written = model.dump()
    assert accepted_by_schema(resource, written)
    assert resource.model_validate_json(json.dumps(written)) == model


@pytest.mark.parametrize(
    "resource", [NodeBMC, NodeHardware, NodePowerProfile, NodeTwin], ids=lambda each: each.info.kind
)
def test_an_object_bears_the_name_of_its_node_for_ever(resource):
    schema = schema_of(resource)
    spec = {"nodeName": "n1", "profile": "eco"}
    before = {"metadata": {"name": "n1"}, "spec": spec}
    assert list(rules_broken(schema, before, before)) == []
    misnamed = {"metadata": {"name": "n1"}, "spec": spec | {"nodeName": "n2"}}
    assert list(rules_broken(schema, misnamed)) == ["nodeName must equal metadata.name"]
    assert "nodeName is immutable" in list(rules_broken(schema, misnamed, before))


def test_a_power_domain_is_not_its_own_parent():
    schema = schema_of(PowerDomain)
    spec = pdom(parent="n1")[1]["spec"]
    assert list(rules_broken(schema, {"metadata": {"name": "n2"}, "spec": spec})) == []
    own = list(rules_broken(schema, {"metadata": {"name": "n1"}, "spec": spec}))
    assert own == ["parent must be another PowerDomain"]


def test_a_routing_profile_may_bear_any_name():
    assert "x-kubernetes-validations" not in schema_of(TelemetryProfile)


def test_whole_numbers_and_floats_mean_the_same():
    kind, whole = measurement(measuredNodePowerW=72, nodeTdpW=72)
    _, decimal = measurement(measuredNodePowerW=72.0, nodeTdpW=72.0)
    assert kind.model_validate(whole) == kind.model_validate(decimal)


def test_an_unknown_field_of_a_newer_release_is_ignored():
    kind, document = npp(futureField={"x": 1})
    assert kind.model_validate(document) == kind.model_validate(npp()[1])


def test_a_column_defaults_to_text():
    assert Column("Node", ".spec.nodeName").type == "string"


@pytest.mark.parametrize("text", ["tomorrow", "", "2026-11-28", "2026-11-28T18:00:00", "18:00Z", "9" * 41])
def test_a_time_of_a_power_event_is_rfc_3339_with_a_zone(text):
    assert leaf(schema_of(PowerEvent), ".spec.end")["format"] == "date-time"
    assert not accepted_by_model(*pevt(end=text))
    assert not accepted_by_model(*pevt(start=text))
