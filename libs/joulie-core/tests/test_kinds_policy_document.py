"""Configurations of container policies, read from documents."""

from typing import ClassVar

import jsonschema
import pytest

from joulie_core.control.cpu_frequency import FrequencyName
from joulie_core.control.throttle_plan import ThrottleOrder
from joulie_core.kinds.balloons_policy import BalloonsPolicy
from joulie_core.kinds.base import Kind
from joulie_core.kinds.container_policy import ContainerPolicyResource, PlacementPolicySpec, policy_kind
from joulie_core.kinds.cpu_class import CpuClassSpec, parse_epp, parse_frequency
from joulie_core.kinds.crds import manifest, structural_schema
from joulie_core.kinds.policy_document import PolicyDocumentError, load_policy


class ExamplePolicy(ContainerPolicyResource):
    """A kind with all that policies share."""

    info: ClassVar[Kind] = policy_kind("ExamplePolicy", "exp", PlacementPolicySpec)
    spec: PlacementPolicySpec


def load(spec, version="joulie.io/v1alpha1"):
    document = {"apiVersion": version, "kind": "ExamplePolicy", "metadata": {"name": "default"}, "spec": spec}
    return load_policy(document, [ExamplePolicy])


def problems(spec):
    with pytest.raises(PolicyDocumentError) as caught:
        load(spec)
    return caught.value.problems


@pytest.mark.parametrize(
    ("written", "means"),
    [
        (2_400_000, 2_400_000),
        ("2.4GHz", 2_400_000),
        ("800 MHz", 800_000),
        ("0.8GHz", 800_000),
        ("900000kHz", 900_000),
        ("2900000", 2_900_000),
        ("turbo", FrequencyName.TURBO),
        (0, None),
        (None, None),
    ],
)
def test_a_frequency_is_a_number_of_khz_a_text_with_a_unit_or_a_name(written, means):
    assert parse_frequency(written) == means


@pytest.mark.parametrize("written", [True, -1, 2.4, "2.4", "fast", "1GHz2", "0.0000001GHz", "٢GHz", "200GHz", [1]])
def test_anything_else_is_no_frequency(written):
    with pytest.raises(ValueError, match=r"2\.4GHz"):
        parse_frequency(written)


@pytest.mark.parametrize(("written", "means"), [("power", "power"), (0, "0"), ("255", "255"), (None, None)])
def test_an_energy_performance_preference_is_a_word_or_a_byte(written, means):
    assert parse_epp(written) == means


@pytest.mark.parametrize("written", [True, -1, 256, "fast", "²", 1.5])
def test_anything_else_is_no_energy_performance_preference(written):
    with pytest.raises(ValueError, match="balance_power"):
        parse_epp(written)


def test_amounts_of_cpus_are_numbers_or_texts():
    spec = load({"availableResources": {"cpu": "cpuset:0-3"}, "reservedResources": {"cpu": 1}}).policy.spec
    assert spec.available_resources.cpu == "cpuset:0-3"
    assert spec.reserved_resources.cpu == "1"


def test_classes_of_the_older_form_and_of_joulie_itself_may_be_referred_to():
    older = {"old": {"minFreq": 800_000, "maxFreq": 0}, "new": {"maxFreq": 1}, "eco": {"maxFreq": 2}}
    spec = load(
        {"control": {"cpu": {"classes": older}}, "cpuClasses": [{"name": "new", "maxFreq": "base"}]}
    ).policy.spec
    classes = spec.classes_by_name
    assert (classes["old"].min_freq, classes["old"].max_freq) == (800_000, None)
    assert classes["new"].max_freq is FrequencyName.BASE
    assert classes["eco"].max_freq == 2
    assert classes["performance"].energy_performance_preference == "performance"


@pytest.mark.parametrize(
    ("spec", "order"),
    [
        (CpuClassSpec(name="eco"), ThrottleOrder.ECO),
        (CpuClassSpec(name="batch"), ThrottleOrder.STANDARD),
        (CpuClassSpec(name="eco", throttle_order=ThrottleOrder.PERFORMANCE), ThrottleOrder.PERFORMANCE),
    ],
)
def test_a_class_is_throttled_as_it_says_or_as_its_name_says(spec, order):
    assert spec.throttled is order


def test_every_problem_is_named_with_its_field_its_value_and_what_is_valid():
    found = problems(
        {"agent": "x", "cpuClasses": [{"name": "a", "minFreq": "fast"}, {"name": "b", "freqGovernor": "slow"}]}
    )
    assert found[0].startswith("spec.agent: 'x': ")
    assert found[1].startswith("spec.cpuClasses[0].minFreq: 'fast': write a whole number of kHz")
    assert found[2].startswith("spec.cpuClasses[1].freqGovernor: 'slow': Input should be 'performance'")


def test_names_are_unique():
    (found,) = problems({"cpuClasses": [{"name": "a"}, {"name": "b"}, {"name": "a"}]})
    assert found.endswith("names must be unique; repeated: a")


def test_speed_select_is_refused():
    (found,) = problems({"cpuClasses": [{"name": "a", "sstClosID": 0}]})
    assert found.endswith("pctPriority and sstClosID need Intel Speed Select, which is not supported; remove them")


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (None, ["the document is None, not a manifest with apiVersion, kind and spec"]),
        (
            {"apiVersion": "v1", "kind": "Pod", "spec": {}},
            [
                "apiVersion: 'v1' is neither joulie.io/v1alpha1 nor config.nri/v1alpha1",
                "kind: 'Pod' is not one of ExamplePolicy",
            ],
        ),
        (
            {"apiVersion": "joulie.io/v1alpha1", "kind": "ExamplePolicy"},
            ["spec is required and absent"],
        ),
    ],
)
def test_what_is_no_configuration_is_refused(document, expected):
    with pytest.raises(PolicyDocumentError) as caught:
        load_policy(document, [ExamplePolicy])
    assert list(caught.value.problems) == expected


def test_a_long_value_is_shortened_in_the_message():
    (found,) = problems({"agent": "x" * 1000})
    assert len(found) < 200


def test_fields_that_change_nothing_are_named():
    found = load(
        {
            "log": {"debug": ["policy"], "klog": {"v": 3}},
            "colour": "red",
            "cpuClasses": [{"name": "a"}, {"name": "b", "price": 3}],
            "control": {"cpu": {"classes": {"old": {"speed": 3}}}, "rdt": {"enable": True, "partitions": {"p": {}}}},
        }
    )
    assert found.ignored == (
        "spec.log.debug",
        "spec.log.klog",
        "spec.colour",
        "spec.cpuClasses[1].price",
        "spec.control.cpu.classes.old.speed",
        "spec.control.rdt.partitions",
    )


def test_a_field_that_is_null_is_absent():
    found = load({"cpuClasses": None, "agent": {"podResourceAPI": None}, "colour": None})
    assert found.policy.spec == PlacementPolicySpec()
    assert found.ignored == ()


@pytest.mark.parametrize(
    ("version", "spec", "published"),
    [
        ("config.nri/v1alpha1", {}, True),
        ("config.nri/v1alpha1", {"agent": {"podResourceAPI": True}}, False),
        ("joulie.io/v1alpha1", {}, False),
    ],
)
def test_the_schema_of_the_document_decides_on_defaults(version, spec, published):
    assert load(spec, version).policy.spec.agent.node_resource_topology is published


def test_the_status_of_a_document_is_not_read():
    document = {"apiVersion": "config.nri/v1alpha1", "kind": "ExamplePolicy", "spec": {}, "status": {"nodes": 3}}
    assert load_policy(document, [ExamplePolicy]).policy.status.nodes == {}


def test_the_api_server_accepts_what_is_accepted_here():
    schema = structural_schema(PlacementPolicySpec)
    document = {
        "availableResources": {"cpu": "cpuset:0-3"},
        "reservedResources": {"cpu": 1, "memory": "1Gi"},
        "cpuClasses": [{"name": "a", "minFreq": "2.4GHz", "maxFreq": 3_000_000, "energyPerformancePreference": 128}],
        "control": {"rdt": {"options": {"l3": {"optional": True}}}},
    }
    jsonschema.validate(document, schema)
    assert load(document).ignored == ("spec.reservedResources.memory", "spec.control.rdt.options")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"agent": {"podResourceAPI": "yes"}}, schema)


def test_a_kind_is_named_in_the_plural():
    assert manifest(ExamplePolicy)["spec"]["names"]["plural"] == "examplepolicies"


def balloons(version, **options):
    spec = {
        "reservedResources": {"cpu": 1},
        "idleCPUClass": "normal",
        "balloonTypes": [{"name": "a", "cpuClass": "fast"}],
    }
    document = {"apiVersion": version, "kind": "BalloonsPolicy", "spec": spec | options}
    return load_policy(document, [BalloonsPolicy])


def test_classes_of_a_document_of_the_older_group_that_defines_none_have_no_effect():
    found = balloons("config.nri/v1alpha1", control={"cpu": {"classes": {}}})
    assert found.policy.spec.idle_cpu_class == found.policy.spec.balloon_types[0].cpu_class == ""
    assert found.ignored == ("spec.idleCPUClass", "spec.balloonTypes[0].cpuClass")


def test_built_in_classes_may_be_named_in_a_document_of_the_older_group():
    found = balloons("config.nri/v1alpha1", idleCPUClass="eco")
    assert found.policy.spec.idle_cpu_class == "eco"


@pytest.mark.parametrize(
    ("version", "options"),
    [
        ("joulie.io/v1alpha1", {}),
        ("config.nri/v1alpha1", {"cpuClasses": [{"name": "slow"}]}),
        ("config.nri/v1alpha1", {"control": {"cpu": {"classes": {"slow": {}}}}}),
    ],
)
def test_an_undefined_class_is_a_mistake_elsewhere(version, options):
    with pytest.raises(PolicyDocumentError) as caught:
        balloons(version, **options)
    assert [problem.partition(": ")[0] for problem in caught.value.problems] == [
        "spec.idleCPUClass",
        "spec.balloonTypes[0].cpuClass",
    ]


@pytest.mark.parametrize("types", [3, [3], [{"cpuClass": 3}]])
def test_a_malformed_document_of_the_older_group_is_refused(types):
    with pytest.raises(PolicyDocumentError, match=r"spec\.balloonTypes"):
        balloons("config.nri/v1alpha1", balloonTypes=types)
