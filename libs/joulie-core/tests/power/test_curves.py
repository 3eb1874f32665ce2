import pytest

from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import view_from_node
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.power.curves import node_curves


def curves(labels, allocatable):
    node = Node(NodeName("n"), labels=labels, allocatable=allocatable, capacity=allocatable)
    return node_curves(view_from_node(node, Inventory.load()))


def test_the_curves_of_a_node_have_the_work_of_its_threads_and_gpus():
    found = curves(
        {"joulie.io/hw.cpu-model": "AMD EPYC 9654", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        {"cpu": "384", "memory": "1Ti", "nvidia.com/gpu": "8"},
    )
    assert found.work_per_thread == pytest.approx(1.36)
    assert found.gpu.work_per_gpu == pytest.approx(1.95)


def test_work_is_unknown_where_the_models_are():
    found = curves({"nvidia.com/gpu.product": "Tesla-P100-PCIE-16GB"}, {"cpu": "64", "nvidia.com/gpu": "4"})
    assert found.work_per_thread is None
    assert found.gpu.work_per_gpu is None
