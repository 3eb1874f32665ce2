"""Manifests of config.nri/v1alpha1 as a cluster has them: each field has its meaning, has no effect, or is refused."""

from typing import NamedTuple

import jsonschema
import pytest

from joulie_core.kinds.balloons_policy import BalloonsPolicy
from joulie_core.kinds.crds import manifest
from joulie_core.kinds.policy_document import PolicyDocumentError, load_policy
from joulie_core.kinds.template_policy import TemplatePolicy
from joulie_core.kinds.topology_aware_policy import TopologyAwarePolicy

KINDS = {each.info.kind: each for each in (BalloonsPolicy, TopologyAwarePolicy, TemplatePolicy)}
ALL = tuple(KINDS)
BALLOONS, TOPOLOGY_AWARE = ("BalloonsPolicy",), ("TopologyAwarePolicy",)
PLACING = (*BALLOONS, *TOPOLOGY_AWARE)

MEANS, NO_EFFECT, REFUSED = "means", "no effect", "refused"

#: What the schemas of that group fill in.
DEFAULTS = {
    "agent": {"nodeResourceTopology": True},
    "instrumentation": {"metrics": {"enabled": ["policy", "buildinfo"]}, "reportPeriod": "30s"},
    "reservedResources": {"cpu": "750m"},
}
OF_KIND = {
    "BalloonsPolicy": {
        "controllableInterrupts": ["*"],
        "pinCPU": True,
        "pinMemory": True,
        "turboDomain": "package",
        "balloonTypes": [{"name": "a", "allocatorPriority": "high", "preferIsolCpus": False}],
    },
    "TopologyAwarePolicy": {
        "controllableInterrupts": ["*"],
        "pinCPU": True,
        "pinMemory": True,
        "preferIsolatedCPUs": True,
        "defaultCPUPriority": "none",
        "unlimitedBurstable": "package",
    },
    "TemplatePolicy": {},
}
EXPRESSION = {"key": "pod/labels/app", "operator": "In", "values": ["a"]}
#: An entry that other fields refer to, where the field below needs one.
NEEDS = {
    "idleCPUClass": {"cpuClasses": [{"name": "c"}]},
    "sharedPoolCPUClass": {"cpuClasses": [{"name": "c"}]},
    "reservedPoolCPUClass": {"cpuClasses": [{"name": "c"}]},
    "defaultExclusiveCPUClass": {"cpuClasses": [{"name": "c"}]},
    "namespaceSchedulingClasses": {"schedulingClasses": [{"name": "s"}]},
    "podQoSSchedulingClasses": {"schedulingClasses": [{"name": "s"}]},
    "cpuClass": {"cpuClasses": [{"name": "c"}]},
    "schedulingClass": {"schedulingClasses": [{"name": "s"}]},
    "loads": {"loadClasses": [{"name": "l", "level": "core"}]},
}


class Row(NamedTuple):
    kind: str
    answer: str
    prefix: str
    #: Another field of the entry, where `prefix` is a list.
    entry: dict[str, object] | None
    name: str
    value: object

    @property
    def spec(self):
        """A specification with this field besides those that are required."""
        spec = {"reservedResources": {"cpu": 1}} | NEEDS.get(self.name, {})
        if self.entry is not None:
            return spec | {self.prefix: [self.entry | {self.name: self.value}]}
        part = spec
        for key in filter(None, self.prefix.split(".")):
            part = part.setdefault(key, {})
        part[self.name] = self.value
        return spec

    @property
    def path(self):
        prefix = self.prefix if self.entry is None else f"{self.prefix}[0]"
        return ".".join(filter(None, ("spec", prefix, self.name)))

    def read(self, spec):
        """What a configuration has for the field."""
        part = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
        for key in filter(None, self.prefix.split(".")):
            part = part[key]
        return (part[0] if self.entry is not None else part)[self.name]


def fields(kinds, answer, prefix, values, entry=None):
    """Rows of the table. With `entry` the fields are those of an entry of the list `prefix`."""
    for name, value in values.items():
        for kind in kinds:
            row = Row(kind, answer, prefix, entry, name, value)
            yield pytest.param(row, id=f"{kind} {row.path}={value}"[:60])


TABLE = [
    *fields(ALL, MEANS, "", {"availableResources": {"cpu": "cpuset:0-7"}, "reservedPoolNamespaces": ["a-*"]}),
    *fields(ALL, MEANS, "agent", {"nodeResourceTopology": False, "podResourceAPI": True}),
    *fields(ALL, MEANS, "control.rdt", {"enable": True, "usePodQoSAsDefaultClass": True}),
    *fields(ALL, NO_EFFECT, "control.rdt", {"force": True, "options": {"l3": {"optional": True}}, "partitions": {}}),
    *fields(ALL, MEANS, "control.blockio", {"enable": True, "usePodQoSAsDefaultClass": True}),
    *fields(ALL, NO_EFFECT, "log", {"debug": ["policy"], "source": True, "klog": {"v": 3, "skip_headers": True}}),
    *fields(
        ALL,
        NO_EFFECT,
        "instrumentation",
        {
            "httpEndpoint": ":8891",
            "prometheusExport": True,
            "reportPeriod": "30s",
            "metrics": {"enabled": ["*"], "polled": []},
            "metricsExporter": "prometheus",
            "logExporter": "otlp-http",
            "logExportPeriod": "1s",
            "samplingRatePerMillion": 100_000,
            "tracingCollector": "otlp-http",
        },
    ),
    *fields(PLACING, MEANS, "", {"pinCPU": False, "pinMemory": False}),
    *fields(BALLOONS, MEANS, "", {"controllableInterrupts": ["eth*", "24"]}),
    *fields(TOPOLOGY_AWARE, NO_EFFECT, "", {"controllableInterrupts": ["*"]}),
    *fields(
        PLACING,
        MEANS,
        "control.cpu.classes.c",
        {
            "minFreq": 800_000,
            "maxFreq": 2_000_000,
            "energyPerformancePreference": "128",
            "freqGovernor": "schedutil",
            "uncoreMinFreq": 800_000,
            "uncoreMaxFreq": 1_600_000,
            "disabledCstates": ["C6"],
        },
    ),
    *fields(
        PLACING,
        MEANS,
        "cpuClasses",
        {
            "minFreq": "base",
            "maxFreq": "turbo",
            "energyPerformancePreference": "128",
            "freqGovernor": "performance",
            "uncoreMinFreq": 800_000,
            "uncoreMaxFreq": 1_600_000,
            "disabledCstates": ["C6"],
            "turboPriority": 3,
            "publishExtendedResource": True,
        },
        {"name": "c"},
    ),
    *fields(PLACING, NO_EFFECT, "cpuClasses", {"pctMinFreq": "2GHz", "pctMaxFreq": "turbo"}, {"name": "c"}),
    *fields(PLACING, REFUSED, "cpuClasses", {"pctPriority": "high", "sstClosID": 0}, {"name": "c"}),
    *fields(
        PLACING,
        MEANS,
        "schedulingClasses",
        {
            "policy": "fifo",
            "priority": 10,
            "flags": ["reset-on-fork"],
            "nice": -5,
            "runtime": 1000,
            "deadline": 2000,
            "period": 3000,
            "ioClass": "be",
            "ioPriority": 3,
        },
        {"name": "s"},
    ),
    *fields(
        TOPOLOGY_AWARE,
        MEANS,
        "",
        {
            "preferIsolatedCPUs": False,
            "preferSharedCPUs": True,
            "colocatePods": True,
            "colocateNamespaces": True,
            "defaultCPUPriority": "high",
            "unlimitedBurstable": "numa",
            "sharedPoolCPUClass": "c",
            "reservedPoolCPUClass": "c",
            "defaultExclusiveCPUClass": "c",
            "namespaceSchedulingClasses": {"n": "s"},
            "podQoSSchedulingClasses": {"Burstable": "s"},
        },
    ),
    *fields(
        BALLOONS,
        MEANS,
        "",
        {
            "idleCPUClass": "c",
            "allocatorTopologyBalancing": True,
            "preferSpreadOnPhysicalCores": True,
            "preserve": {"matchExpressions": [EXPRESSION]},
            "showContainersInNrt": True,
            "turboDomain": "package",
            "loadClasses": [{"name": "l", "level": "l2cache", "overloadsLevelInBalloon": True}],
        },
    ),
    *fields(BALLOONS, REFUSED, "", {"turboDomain": "system"}),
    *fields(
        BALLOONS,
        MEANS,
        "balloonTypes",
        {
            "namespaces": ["*"],
            "matchExpressions": [EXPRESSION],
            "groupBy": "${pod/labels/app}",
            "minCPUs": 1,
            "maxCPUs": 4,
            "minBalloons": 1,
            "maxBalloons": 2,
            "cpuClass": "c",
            "loads": ["l"],
            "memoryTypes": ["DRAM", "HBM", "PMEM"],
            "pinMemory": False,
            "schedulingClass": "s",
            "allocatorPriority": "none",
            "allocatorTopologyBalancing": True,
            "preferSpreadOnPhysicalCores": True,
            "hideHyperthreads": True,
            "preferIsolCpus": True,
            "preferCoreType": "efficient",
            "preferCloseToDevices": ["/sys/devices/system/node/node0"],
            "preferSpreadingPods": True,
            "preferPerNamespaceBalloon": True,
            "preferNewBalloons": True,
            "shareIdleCPUsInSame": "package",
            "components": [{"balloonType": "default"}],
            "componentCreation": "all",
            "showContainersInNrt": True,
        },
        {"name": "a"},
    ),
    *fields(BALLOONS, MEANS, "balloonTypes", {"irqMode": "", "irqClaim": []}, {"name": "a"}),
    *fields(BALLOONS, MEANS, "balloonTypes", {"irqMode": "sink", "irqClaim": ["eth*"]}, {"name": "a"}),
    *fields(BALLOONS, MEANS, "balloonTypes", {"irqMode": "isolate"}, {"name": "a"}),
]


def exported(kind, spec, version="config.nri/v1alpha1"):
    """An object as `kubectl get -o yaml` writes it."""
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {
            "name": "default",
            "namespace": "kube-system",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
            "creationTimestamp": "2026-11-01T00:00:00Z",
            "generation": 3,
            "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "managedFields": [{"manager": "helm", "operation": "Update", "fieldsV1": {"f:spec": {}}}],
            "resourceVersion": "77",
            "uid": "5f9b4f0e-0f6d-4d8c-a4ec-1a6a3a1b1c11",
        },
        "spec": spec,
        "status": {"nodes": {"n1": {"generation": 3, "status": "Success", "timestamp": "2026-11-01T00:00:00Z"}}},
    }


def load(kind, spec, version="config.nri/v1alpha1"):
    return load_policy(exported(kind, spec, version), [KINDS[kind]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", ["config.nri/v1alpha1", "joulie.io/v1alpha1"])
def test_an_object_with_the_defaults_of_its_schema_is_in_force(kind, version):
    found = load(kind, DEFAULTS | OF_KIND[kind], version)
    assert found.policy.spec.reserved_resources.cpu == "750m"
    assert found.policy.spec.agent.node_resource_topology
    interrupts = ("spec.controllableInterrupts",) if kind in TOPOLOGY_AWARE else ()
    no_effect = {"spec.instrumentation.metrics", "spec.instrumentation.reportPeriod", *interrupts}
    assert set(found.ignored) == no_effect


@pytest.mark.parametrize("row", TABLE)
def test_every_field_has_its_meaning_or_is_answered_by_its_name(row):
    if row.answer == REFUSED:
        with pytest.raises(PolicyDocumentError) as caught:
            load(row.kind, row.spec)
        (problem,) = caught.value.problems
        assert problem.startswith(row.path.removesuffix(f".{row.name}"))
        assert row.name in problem
        assert "remove" in problem
        return
    found = load(row.kind, row.spec)
    assert found.ignored == ((row.path,) if row.answer == NO_EFFECT else ())
    assert row.read(found.policy.spec) == row.value


@pytest.mark.parametrize("row", TABLE)
def test_the_api_server_stores_every_field_of_an_object_of_the_new_group(row):
    schema = manifest(KINDS[row.kind])["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    if row.answer != REFUSED:
        jsonschema.validate(row.spec, schema)
    assert_known(row.spec, schema, "spec")


def assert_known(value, schema, path):
    """The schema has every field, so that none is pruned and `kubectl apply` reports none as unknown."""
    if isinstance(value, list):
        for each in value:
            assert_known(each, schema["items"], path)
    elif isinstance(value, dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        for key, each in value.items():
            below = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
            assert below, f"{path}.{key}"
            assert_known(each, below, f"{path}.{key}")
