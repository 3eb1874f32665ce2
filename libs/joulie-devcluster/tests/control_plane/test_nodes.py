"""Node classes: their YAML format, and the Nodes made from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core import labels as keys
from joulie_devcluster.control_plane.nodes import (
    CpuClass,
    NodeClass,
    default_node_classes,
    node_manifests,
    parse_node_classes,
    read_node_classes,
    scale,
)
from joulie_devcluster.errors import NodeClassError

GPU_CLASS = """
classes:
  - name: h100
    count: 3
    cpu: {model: Intel-Xeon-Platinum-8480, sockets: 2, cores: 112}
    gpu: {model: NVIDIA-H100-80GB-HBM3, count: 8}
    memory: 2Ti
    kind: gpu
    racks: [r1, r2]
    coolingZones: [north]
    labels: {team: ml}
    annotations: {note: some text}
    taints: [{key: gpu, effect: NoSchedule}]
"""


def error_of(text):
    with pytest.raises(NodeClassError) as caught:
        parse_node_classes(text, source="nodes.yaml")
    return str(caught.value)


def test_nodes_of_a_class_have_hardware_labels_and_capacity():
    node = node_manifests(parse_node_classes(GPU_CLASS, source="nodes.yaml"))[1]
    labels = node["metadata"]["labels"]
    assert node["metadata"]["name"] == labels["kubernetes.io/hostname"] == "h100-1"
    assert labels[keys.MANAGED] == "true"
    assert labels[keys.HW_CPU_MODEL] == "Intel-Xeon-Platinum-8480"
    assert (labels[keys.HW_CPU_SOCKETS], labels[keys.HW_CPU_CORES]) == ("2", "112")
    assert (labels[keys.HW_GPU_MODEL], labels[keys.HW_GPU_COUNT]) == ("NVIDIA-H100-80GB-HBM3", "8")
    assert (labels[keys.RACK], labels[keys.COOLING_ZONE], labels[keys.HW_KIND]) == ("r2", "north", "gpu")
    assert labels["team"] == "ml"
    assert node["status"]["capacity"] == {
        "cpu": "224",
        "memory": "2Ti",
        "pods": "110",
        "ephemeral-storage": "400Gi",
        "nvidia.com/gpu": "8",
    }
    assert node["status"]["allocatable"] == node["status"]["capacity"]
    assert node["spec"]["taints"] == [{"key": "gpu", "value": "", "effect": "NoSchedule"}]


def test_nodes_have_the_annotation_of_kwok():
    annotations = node_manifests(parse_node_classes(GPU_CLASS, source="x"))[0]["metadata"]["annotations"]
    assert annotations == {"kwok.x-k8s.io/node": "fake", "note": "some text"}


def test_a_class_can_be_unmanaged_and_without_gpus():
    node_class = NodeClass(name="plain", cpu=CpuClass(model="generic", cores=4, threads_per_core=1), managed=False)
    node = node_manifests([node_class])[0]
    assert keys.MANAGED not in node["metadata"]["labels"]
    assert keys.HW_GPU_COUNT not in node["metadata"]["labels"]
    assert node["status"]["capacity"]["cpu"] == "4"
    assert node["spec"] == {}


def test_explicit_labels_override_derived_ones():
    text = GPU_CLASS.replace("{team: ml}", "{joulie.io/rack: mine}")
    assert node_manifests(parse_node_classes(text, source="x"))[0]["metadata"]["labels"][keys.RACK] == "mine"


def test_the_error_lists_field_and_value_of_every_mistake():
    message = error_of("""
classes:
  - name: Big Node
    cpu: {model: AMD EPYC 9654, cores: 0}
    memory: lots
    colour: red
""")
    assert message.startswith("nodes.yaml ")
    for part in ("classes[0].name = 'Big Node'", "classes[0].cpu.model = 'AMD EPYC 9654'", "classes[0].cpu.cores = 0"):
        assert part in message
    assert "classes[0].memory = 'lots'" in message
    assert "classes[0].colour = 'red'" in message


@pytest.mark.parametrize("text", ["", "[]", "classes: []", "classes: 3", "nodes: []"])
def test_content_without_a_list_of_classes_is_rejected(text):
    assert "classes" in error_of(text)


def test_text_that_is_not_yaml_is_rejected():
    assert "not YAML" in error_of("classes: [")


def test_two_classes_with_the_same_node_name_are_rejected():
    text = "classes:\n" + "  - {name: a, cpu: {model: m, cores: 1}}\n" * 2
    assert "a-0" in error_of(text)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(NodeClassError, match="cannot be read"):
        read_node_classes(tmp_path / "none.yaml")


def test_the_default_mix_is_forty_nodes_of_several_models():
    classes = default_node_classes()
    assert sum(node_class.count for node_class in classes) == 40
    assert len({node_class.cpu.model for node_class in classes}) >= 3
    assert len({node_class.gpu.model for node_class in classes if node_class.gpu}) >= 3


@given(st.integers(min_value=1, max_value=5000))
def test_scaling_keeps_the_total_and_the_proportions(total):
    classes = default_node_classes()
    scaled = {node_class.name: node_class.count for node_class in scale(classes, total)}
    assert sum(scaled.values()) == total
    for node_class in classes:
        assert abs(scaled.get(node_class.name, 0) - total * node_class.count / 40) < 1
