import pytest
from pydantic import ValidationError

from joulie_core.kinds.balloons_policy import BalloonsPolicy, BalloonsPolicySpec
from joulie_core.kinds.policy_document import PolicyDocumentError, load_policy

#: As it is written for the group config.nri, with every option that the policy has.
MANIFEST = {
    "apiVersion": "config.nri/v1alpha1",
    "kind": "BalloonsPolicy",
    "metadata": {"name": "default", "namespace": "kube-system"},
    "spec": {
        "pinCPU": True,
        "pinMemory": False,
        "idleCPUClass": "idle",
        "reservedPoolNamespaces": ["monitoring-*"],
        "allocatorTopologyBalancing": True,
        "preferSpreadOnPhysicalCores": True,
        "availableResources": {"cpu": "cpuset:0-63"},
        "reservedResources": {"cpu": 1},
        "preserve": {"matchExpressions": [{"key": "name", "operator": "In", "values": ["a", "b"]}]},
        "showContainersInNrt": True,
        "loadClasses": [{"name": "avx", "level": "core", "overloadsLevelInBalloon": True}],
        "schedulingClasses": [{"name": "rt", "policy": "fifo", "priority": 10}],
        "cpuClasses": [{"name": "idle", "maxFreq": "min"}, {"name": "fast", "minFreq": "2.4GHz"}],
        "control": {"cpu": {"classes": {"older": {"minFreq": 1000000}}}},
        "turboDomain": "package",
        "balloonTypes": [
            {
                "name": "part",
                "cpuClass": "older",
                "loads": ["avx"],
                "allocatorPriority": "normal",
                "allocatorTopologyBalancing": False,
                "preferSpreadOnPhysicalCores": False,
                "preferIsolCpus": True,
                "preferCoreType": "performance",
                "preferCloseToDevices": ["/sys/devices/system/node/node2", "podresourceapi:example.com/nic"],
            },
            {
                "name": "whole",
                "namespaces": ["db"],
                "matchExpressions": [{"key": "pod/labels/app", "operator": "Exists"}],
                "groupBy": "${pod/labels/app}",
                "minCPUs": 2,
                "maxCPUs": 8,
                "minBalloons": 1,
                "maxBalloons": 3,
                "memoryTypes": ["DRAM", "PMEM"],
                "pinMemory": True,
                "schedulingClass": "rt",
                "hideHyperthreads": True,
                "preferSpreadingPods": True,
                "preferPerNamespaceBalloon": True,
                "preferNewBalloons": True,
                "shareIdleCPUsInSame": "numa",
                "components": [{"balloonType": "part"}, {"balloonType": "default"}],
                "componentCreation": "balance-balloons",
                "showContainersInNrt": False,
            },
            {"name": "eco", "cpuClass": "eco", "maxCPUs": -1},
        ],
    },
}
RESERVED = {"reservedResources": {"cpu": "1"}}


def problems(spec):
    with pytest.raises(PolicyDocumentError) as caught:
        load_policy(MANIFEST | {"spec": spec}, [BalloonsPolicy])
    return list(caught.value.problems)


def test_a_manifest_with_every_option_is_read_and_nothing_is_ignored():
    found = load_policy(MANIFEST, [BalloonsPolicy])
    assert found.ignored == ()
    spec = found.policy.spec
    assert isinstance(spec, BalloonsPolicySpec)
    written = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    for index, each in enumerate(MANIFEST["spec"]["balloonTypes"]):
        assert written["balloonTypes"][index] == each


def test_defaults_are_those_of_the_manifests_schema():
    spec = BalloonsPolicySpec.model_validate(RESERVED | {"balloonTypes": [{"name": "a"}]})
    assert (spec.pin_cpu, spec.pin_memory, spec.turbo_domain) == (True, True, "package")
    assert not spec.allocator_topology_balancing
    assert not spec.prefer_spread_on_physical_cores
    (a,) = spec.balloon_types
    assert (a.max_cpus or 0, a.min_cpus or 0, a.max_balloons or 0, a.min_balloons or 0) == (0, 0, 0, 0)
    assert not (a.hide_hyperthreads)
    assert not (a.prefer_new_balloons)
    assert not (a.prefer_spreading_pods)
    assert not (a.prefer_isol_cpus)


def test_all_interrupts_may_be_moved_unless_a_manifest_names_some():
    assert BalloonsPolicySpec.model_validate(RESERVED).controllable_interrupts == ("*",)
    assert BalloonsPolicySpec.model_validate(RESERVED | {"controllableInterrupts": []}).controllable_interrupts == ()


def test_a_mode_of_interrupts_that_is_none_and_too_many_claims_are_refused():
    assert problems(RESERVED | {"balloonTypes": [{"name": "a", "irqMode": "Sink"}]}) == [
        "spec.balloonTypes[0].irqMode: 'Sink': Input should be '', 'sink' or 'isolate'"
    ]
    types = [{"name": f"t{number}", "irqClaim": ["*"] * 64} for number in range(17)]
    (problem,) = problems(RESERVED | {"balloonTypes": types})
    assert problem.startswith("spec.balloonTypes: 1088: entries of irqClaim in all types, more than 1024")


def test_all_errors_are_reported_at_once_with_field_value_and_what_to_do():
    spec = {
        "idleCPUClass": "none",
        "cpuClasses": [{"name": "idle"}],
        "turboDomain": "system",
        "loadClasses": [{"name": "avx", "level": "core"}, {"name": "avx", "level": "l2cache"}],
        "balloonTypes": [
            {"name": "a", "minCPUs": 3, "maxCPUs": 2, "minBalloons": 5, "maxBalloons": 4},
            {"name": "a", "cpuClass": "quick", "schedulingClass": "rt", "loads": ["avx", "net"]},
            {"name": "b", "components": [{"balloonType": "c"}, {"balloonType": "none"}], "cpuClass": "eco"},
            {"name": "c", "components": [{"balloonType": "b"}], "allocatorTopologyBalancing": True},
        ],
    }
    assert problems(spec) == [
        "spec.reservedResources.cpu: None: is required; write a quantity such as 1 or cpuset:0-1",
        (
            "spec.turboDomain: 'system': classes compete for frequencies within each package; write package, or remove"
            " the field"
        ),
        "spec.idleCPUClass: 'none': is not defined in cpuClasses; defined are performance, standard, eco, idle",
        "spec.balloonTypes[1].name: 'a': is the name of an earlier entry; choose another",
        "spec.loadClasses[1].name: 'avx': is the name of an earlier entry; choose another",
        "spec.balloonTypes[0].minCPUs: 3: is more than maxCPUs, which is 2; raise that or lower this",
        "spec.balloonTypes[0].minBalloons: 5: is more than maxBalloons, which is 4; raise that or lower this",
        (
            "spec.balloonTypes[1].cpuClass: 'quick': is not defined in cpuClasses; defined are performance, standard,"
            " eco, idle"
        ),
        "spec.balloonTypes[1].schedulingClass: 'rt': is not defined in schedulingClasses",
        "spec.balloonTypes[1].loads[1]: 'net': is not defined in loadClasses; defined are avx",
        "spec.balloonTypes[2].cpuClass: 'eco': the type has components; set this on their types instead",
        (
            "spec.balloonTypes[2].components[1].balloonType: 'none': is not defined in balloonTypes; "
            "defined are a, b, c, reserved, default"
        ),
        "spec.balloonTypes[2].components: ['c', 'none']: b would be a part of itself",
        (
            "spec.balloonTypes[3].allocatorTopologyBalancing: True: the type has components; "
            "set this on their types instead"
        ),
        "spec.balloonTypes[3].components: ['b']: c would be a part of itself",
    ]


@pytest.mark.parametrize(
    "each",
    [
        {"name": ""},
        {"name": "a", "maxCPUs": -2},
        {"name": "a", "minCPUs": -1},
        {"name": "a", "shareIdleCPUsInSame": "socket"},
        {"name": "a", "componentCreation": "some"},
        {"name": "a", "allocatorPriority": "highest"},
        {"name": "a", "preferCoreType": "big"},
        {"name": "a", "memoryTypes": ["SRAM"]},
        {"name": "a", "matchExpressions": [{"key": "name", "operator": "Like", "values": ["b"]}]},
    ],
    ids=lambda each: list(each)[-1],
)
def test_a_value_outside_its_range_is_refused(each):
    with pytest.raises(ValidationError):
        BalloonsPolicySpec.model_validate(RESERVED | {"balloonTypes": [each]})


@pytest.mark.parametrize("field", ["pctPriority", "sstClosID"])
def test_classes_that_need_intel_speed_select_are_refused(field):
    value = 1 if field == "sstClosID" else "high"
    (problem,) = problems(RESERVED | {"cpuClasses": [{"name": "a", field: value}]})
    assert "need Intel Speed Select, which is not supported; remove them" in problem


@pytest.mark.parametrize("name", ["performance", "standard", "eco"])
def test_classes_of_joulie_need_no_definition(name):
    types = [{"name": "a", "cpuClass": name}]
    spec = BalloonsPolicySpec.model_validate(RESERVED | {"idleCPUClass": name, "balloonTypes": types})
    assert spec.balloon_types[0].cpu_class == spec.idle_cpu_class == name


def test_a_least_number_needs_no_limit_above_it_but_is_not_above_one():
    types = [{"name": "a", "minCPUs": 4, "maxCPUs": 0}, {"name": "b", "minBalloons": 4, "maxBalloons": 0}]
    spec = BalloonsPolicySpec.model_validate(RESERVED | {"balloonTypes": types})
    assert spec.balloon_types[0].min_cpus == spec.balloon_types[1].min_balloons == 4
    with pytest.raises(ValidationError, match="is more than maxCPUs, which is -1"):
        BalloonsPolicySpec.model_validate(RESERVED | {"balloonTypes": [{"name": "a", "minCPUs": 1, "maxCPUs": -1}]})
