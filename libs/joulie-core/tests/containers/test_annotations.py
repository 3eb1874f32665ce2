"""Annotations of pods about the placement of their containers."""

import time
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from joulie_core.containers.annotations import Annotations
from joulie_core.containers.container import (
    ContainerId,
    ContainerInfo,
    PodInfo,
    PodSandboxId,
    QosClass,
    TopologyHint,
)
from joulie_core.containers.plain_yaml import LONGEST_TEXT, PlainYamlError, parse_yaml
from joulie_core.containers.topology import CpuPriority, MemoryKind

SUFFIX = "resource-policy.nri.io"


def container(annotations, name="main", pod="p1"):
    info = PodInfo(
        id=PodSandboxId(pod), uid=f"u-{pod}", namespace="ns", name=pod, qos=QosClass.GUARANTEED, annotations=annotations
    )
    return ContainerInfo(id=ContainerId(f"{pod}-{name}"), pod=info, name=name)


def read(key, text):
    return Annotations(container({f"{key}.{SUFFIX}/pod": text}))


def messages(annotations):
    return [each.message for each in annotations.warnings]


@pytest.mark.parametrize(
    ("annotations", "value"),
    [
        ({}, None),
        ({"cpu-class.resource-policy.nri.io": "bare"}, "bare"),
        ({"cpu-class.resource-policy.nri.io": "bare", "cpu-class.resource-policy.nri.io/pod": "pod"}, "pod"),
        (
            {
                "cpu-class.resource-policy.nri.io/pod": "pod",
                "cpu-class.resource-policy.nri.io/container.main": "main",
                "cpu-class.resource-policy.nri.io/container.other": "other",
            },
            "main",
        ),
        ({"cpu-class.resource-policy.nri.io/container.other": "other"}, None),
    ],
)
def test_the_most_specific_annotation_counts(annotations, value):
    assert Annotations(container(annotations)).text("cpu-class") == value


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("T", True), ("1", True), ("False", False), (" f ", False), ("0", False)]
)
def test_flags_are_written_as_in_go(text, value):
    assert read("cpu.preserve", text).flag("cpu.preserve") is value


@pytest.mark.parametrize(
    ("getter", "texts"),
    [
        (lambda a: a.flag("k"), ["", "yes", "2"]),
        (lambda a: a.text("k"), ["", "  "]),
        (lambda a: a.choice("k", CpuPriority), ["", "highest"]),
        (lambda a: a.memory_kinds("k") or None, ["", "dram,", "tape"]),
        (
            lambda a: a.duration("k"),
            ["", "0s", "-1s", "soon", "duration: 3", "[60s]", "period: 60s", "{", "&a 60s: *a"],
        ),
    ],
)
def test_a_malformed_annotation_is_ignored_with_a_warning_and_the_next_one_counts(getter, texts):
    good = {"k": "true"}
    for text in texts:
        annotations = read("k", text)
        assert getter(annotations) is None, text
        (warning,) = annotations.warnings
        assert warning.reason == "InvalidAnnotation"
        assert warning.container == "p1-main"
        assert warning.message.startswith(f"annotation k.{SUFFIX}/pod is ignored: ")
    specific = {f"k.{SUFFIX}/container.main": "maybe", f"k.{SUFFIX}": good["k"]}
    annotations = Annotations(container(specific))
    assert annotations.flag("k") is True
    assert len(annotations.warnings) == 1


def test_values_are_typed():
    assert read("p", "High").choice("p", CpuPriority) is CpuPriority.HIGH
    assert read("m", "dram, PMEM").memory_kinds("m") == {MemoryKind.DRAM, MemoryKind.PMEM}
    assert read("m", "dram,pmem,hbm").memory_kinds("m") == set(MemoryKind)
    assert read("m", "").memory_kinds("n") == frozenset()
    assert read("d", "60s").duration("d") == 60
    assert read("d", "500ms").duration("d") == 0.5
    assert read("d", "duration: 1m30s\n").duration("d") == 90


@given(st.text(max_size=200))
def test_no_text_stops_a_container(text):
    names = ["a", "topologyhints", "deny.topologyhints", "allow.topologyhints"]
    pod = {f"{name}.{SUFFIX}/pod": text for name in names} | {
        f"{SUFFIX}/affinity": text,
        f"{SUFFIX}/anti-affinity": text,
    }
    annotations = Annotations(container(pod))
    annotations.text("a"), annotations.flag("a"), annotations.choice("a", CpuPriority), annotations.memory_kinds("a")
    annotations.duration("a"), annotations.affinities()
    annotations.wanted_hints([TopologyHint(provider="mount:/data")])
    assert all(len(each.message) < 1000 for each in annotations.warnings)


def test_a_warning_shows_what_was_written_shortened():
    annotations = read("k", "maybe")
    annotations.flag("k")
    assert messages(annotations)[0].endswith("is ignored: 'maybe' is neither true nor false")
    annotations = read("k", "maybe" * 100)
    annotations.flag("k")
    assert "maybe..." in messages(annotations)[0]
    assert len(messages(annotations)[0]) < 250


# --- topology hints ---

HINTS = (
    TopologyHint(provider="mount:/data"),
    TopologyHint(provider="device:/dev/nvme0n1"),
    TopologyHint(provider="resource:vendor.com/nic"),
)


def wanted(**annotations):
    pod = {f"{name.replace('__', '.')}.{SUFFIX}/pod": text for name, text in annotations.items()}
    found = Annotations(container(pod))
    return [hint.provider.partition(":")[0] for hint in found.wanted_hints(HINTS)], found.warnings


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("true", ["mount", "device", "resource"]),
        ("all", ["mount", "device", "resource"]),
        ("false", []),
        ("none", []),
        ("mounts", ["mount"]),
        ("devices,pod-resources", ["device", "resource"]),
        ("mounts,devices,pod-resources", ["mount", "device", "resource"]),
    ],
)
def test_hints_are_wanted_by_kind(text, kinds):
    assert wanted(topologyhints=text) == (kinds, [])


def test_hints_are_denied_and_allowed_by_path():
    everything = "type: prefix\npaths: [/, 'podresapi:']"
    assert wanted(deny__topologyhints=everything)[0] == []
    assert wanted(deny__topologyhints=everything, allow__topologyhints="type: glob\npaths: ['/dev/nvme*']")[0] == [
        "device"
    ]
    assert wanted(deny__topologyhints="{type: prefix, paths: ['podresapi:vendor.com']}")[0] == ["mount", "device"]


@pytest.mark.parametrize(
    "text", ["type: list\npaths: []", "type: prefix", "type: glob\npaths: ['[']", "paths: [[a]]", "x"]
)
def test_a_malformed_list_of_paths_denies_nothing(text):
    kinds, warnings = wanted(deny__topologyhints=text)
    assert len(kinds) == 3
    assert len(warnings) == 1


def test_a_hint_of_a_kind_without_annotations_is_wanted():
    hint = TopologyHint(provider="test:x")
    assert read("topologyhints", "none").wanted_hints([hint]) == (hint,)


# --- affinity ---


def affinities(text, key="affinity", name="main"):
    annotations = Annotations(container({f"{SUFFIX}/{key}": text}, name))
    return annotations.affinities(), messages(annotations)


def test_names_are_an_affinity_to_containers_of_the_same_pod():
    ((affinity,), warnings) = affinities("main: [cache, log]")
    assert warnings == []
    assert affinity.weight == 1
    subject = container({})
    assert affinity.applies(subject, container({}, "cache"))
    assert not affinity.applies(subject, container({}, "db"))
    assert not affinity.applies(subject, container({}, "cache", pod="p2"))


def test_a_container_has_no_affinity_to_itself():
    ((affinity,), _) = affinities("main: [main]")
    assert not affinity.applies(container({}), container({}))
    assert affinity.applies(container({}), replace(container({}), id=ContainerId("another")))


def test_a_scope_selects_containers_of_other_pods():
    text = (
        "main:\n- scope: {operator: AlwaysTrue}\n  match: {key: pod/name, operator: Equals, values: [p2]}\n  weight: 7"
    )
    ((affinity,), _) = affinities(text)
    assert affinity.weight == 7
    assert affinity.applies(container({}), container({}, pod="p2"))
    assert not affinity.applies(container({}), container({}, pod="p3"))


@pytest.mark.parametrize(
    ("key", "weight", "effective"),
    [
        ("affinity", "5", 5),
        ("affinity", "-5", -5),
        ("affinity", "0", 1),
        ("affinity", "99999", 1000),
        ("anti-affinity", "5", -5),
        ("anti-affinity", "0", -1),
        ("anti-affinity", "99999", -1000),
    ],
)
def test_weights_are_limited_and_count_negative_in_an_anti_affinity(key, weight, effective):
    text = f"main: [{{match: {{key: name, operator: Exists}}, weight: {weight}}}]"
    ((affinity,), _) = affinities(text, key)
    assert affinity.weight == effective


def test_affinities_of_other_containers_do_not_count():
    assert affinities("cache: [log]") == ((), [])
    assert affinities("cache: [{match: {key: name, operator: Equals, values: [main]}}]") == ((), [])
    assert affinities("cache: 3") == affinities("cache: [main, {}]") == affinities("cache: main") == ((), [])


def test_a_short_affinity_of_another_container_counts_in_both_directions():
    found, warnings = affinities("{cache: [log, main], main: [cache, proxy], log: [main]}")
    assert warnings == []
    assert [(each.weight, each.match.values) for each in found] == [(1, ("cache", "proxy", "log"))]


def test_a_short_affinity_of_another_container_counts_beside_full_ones():
    found, warnings = affinities("{cache: [main], main: [{match: {key: name, operator: Equals, values: [x]}}]}")
    assert warnings == []
    assert [each.match.values for each in found] == [("cache",), ("x",)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("main", "write affinities by container name"),
        ("main: cache", "main: write a list"),
        ("main: [cache, {match: {key: name, operator: Exists}}]", "main: write either names or affinities"),
        ("main: [{weight: 5}]", "main[0]: write match"),
        ("main: [[a]]", "main[0]: write match"),
        ("main: [{match: {key: name, operator: Exists}, weight: heavy}]", "main[0].weight: write a whole number"),
        ("main: [{match: {key: name, operator: Like}}]", "main[0].match.operator: Input should be"),
        ("main: [{match: {key: name, operator: Exists}, scope: 3}]", "main[0].scope: Input should be"),
        ("main: [", "it is no YAML: "),
    ],
)
def test_a_malformed_affinity_is_ignored_with_a_warning(text, reason):
    found, (message,) = affinities(text)
    assert found == ()
    assert message.startswith(f"annotation {SUFFIX}/affinity is ignored: {reason}")


# --- YAML ---


def test_scalars_are_texts():
    assert parse_yaml("{a: 1, b: yes, c: [2020-01-01, null]}") == {"a": "1", "b": "yes", "c": ["2020-01-01", "null"]}
    assert parse_yaml("") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: &x [b]\nc: *x", "aliases are not supported"),
        ("- " * 4000, "nested too deeply"),
        ("[" * 4000, "nested too deeply"),
        ("a" * (LONGEST_TEXT + 1), "longer than 8192 characters"),
        ("a: b: c", "in line 1"),
        ("a\x00", "characters that YAML does not allow"),
        ("? [a]\n: b", "in line 1"),
    ],
)
def test_yaml_that_could_do_harm_is_refused(text, reason):
    with pytest.raises(PlainYamlError, match=reason):
        parse_yaml(text)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("toptierlimit", "Linux has no limit for one tier of memory"),
        ("irq-affinity", "interrupts are moved for balloons only, by irqClaim and irqMode of their type"),
    ],
)
def test_annotations_without_effect_are_warned_of_where_they_are_meant_for_the_container(key, why):
    found = Annotations(container({f"{key}.{SUFFIX}/container.main": "1", f"{key}.{SUFFIX}/container.other": "1"}))
    found.warn_of_unsupported()
    (warning,) = found.warnings
    assert (warning.container, warning.reason) == ("p1-main", "UnsupportedAnnotation")
    assert warning.message == f"annotation {key}.{SUFFIX}/container.main is ignored: {why}"


def test_a_container_has_at_most_16_affinities():
    one = "{match: {key: name, operator: Equals, values: [x]}}"
    assert len(affinities(f"main: [{', '.join([one] * 16)}]")[0]) == 16
    found, warnings = affinities(f"main: [{', '.join([one] * 17)}]")
    assert found == ()
    assert warnings == [f"annotation {SUFFIX}/affinity is ignored: main: write at most 16 affinities"]


@pytest.mark.parametrize(
    "text",
    ["[" * 8000, "[" * 4000 + "]" * 4000, "{a: " * 2000, "- " * 4000 + "x", "[']'," * 1600],
    ids=["open", "closed", "mappings", "lists in blocks", "with quoted brackets"],
)
def test_a_deeply_nested_annotation_is_refused_before_it_is_parsed(text):
    """At the greatest length; the scanner alone would take seconds."""
    began = time.process_time()
    assert affinities(text)[1] == [f"annotation {SUFFIX}/affinity is ignored: it is nested too deeply"]
    assert time.process_time() - began < 0.5


def test_an_annotation_may_be_nested_as_deep_as_32_levels():
    assert "write affinities by container name" in affinities("[" * 32 + "]" * 32)[1][0]
    assert "nested too deeply" in affinities("[" * 33 + "]" * 33)[1][0]
