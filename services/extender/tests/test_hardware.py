"""Where the figures of the power estimate come from."""

from dataclasses import replace

import pytest

from joulie_core.kinds.node_hardware import NodeHardware
from joulie_core.node import Node
from joulie_core.powerest.marginal import Coefficients, NodePower, marginal_watts
from joulie_core.powerest.pod_demand import PodDemand
from joulie_extender.hardware import PowerReader

LABELS = {"joulie.io/hw.cpu-model": "AMD EPYC 9654", "joulie.io/hw.cpu-sockets": "2", "joulie.io/hw.cpu-cores": "192"}


def test_discovery_gives_the_figures_of_the_whole_node(make_hardware):
    status = NodeHardware.model_validate(make_hardware("n", cores=96, watts=800, gpus=4, gpu_watts=700)).status
    expected = NodePower(cpu_threads=96, cpu_max_watts=800, gpu_count=4, gpu_max_watts=2_800, cpu_cores=96)
    for node in (None, Node("n", labels=LABELS)):
        power = PowerReader()(node, status)
        assert replace(power, curves=None) == expected
        assert power.curves is not None
        assert power.curves.threads == 96


def test_labels_stand_in_for_discovery():
    power = PowerReader()(Node("n", labels=LABELS), None)
    assert power.cpu_threads == 192
    assert power.cpu_max_watts > 500
    assert power.gpu_count == 0


@pytest.mark.parametrize(
    ("labels", "allocatable", "requested"),
    [
        ({}, {"nvidia.com/gpu": "1"}, 1),
        ({"nvidia.com/gpu.replicas": "4"}, {"nvidia.com/gpu": "4"}, 4),
        ({"nvidia.com/gpu.replicas": "4"}, {"nvidia.com/gpu.shared": "4"}, 4),
        ({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}, {"nvidia.com/gpu": "7"}, 7),
    ],
)
def test_pods_that_take_all_shares_of_a_gpu_cost_its_maximum_once(labels, allocatable, requested):
    described = {"joulie.io/hw.gpu-model": "NVIDIA A100 SXM4 40GB", "joulie.io/hw.gpu-count": "1", **labels}
    power = PowerReader()(Node("n", labels=described, allocatable=allocatable), None)
    one = marginal_watts(PodDemand(cpu_cores=0, gpus=1), power, Coefficients(gpu_util_standard=1)).gpu_watts
    assert requested * one == pytest.approx(power.gpu_max_watts) == pytest.approx(400)


def test_a_partition_does_not_become_cheaper_where_whole_gpus_are_shared():
    labels = {"joulie.io/hw.gpu-model": "NVIDIA A100 SXM4 40GB", "joulie.io/hw.gpu-count": "2"}
    allocatable = {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.5gb": "7"}
    shared = Node("n", labels={**labels, "nvidia.com/gpu.replicas": "4"}, allocatable=allocatable)
    one = marginal_watts(PodDemand(cpu_cores=0, gpus=1 / 7), PowerReader()(shared, None), Coefficients(0, 1, 1))
    assert one.gpu_watts == pytest.approx(400 / 7)


def test_nothing_known_is_nothing_claimed():
    assert PowerReader()(None, None) == NodePower()


def test_a_pod_that_takes_all_threads_of_a_node_costs_its_maximum_and_not_twice_that():
    labels = {"joulie.io/hw.cpu-model": "AMD EPYC 7742", "joulie.io/hw.cpu-sockets": "1"}
    node = Node("n", labels=labels, allocatable={"cpu": "128"})
    status = NodeHardware.model_validate(
        {
            "spec": {"nodeName": "n"},
            "status": {
                "cpu": {
                    "sockets": 1,
                    "totalCores": 64,
                    "threads": 128,
                    "capRange": {"minWattsPerSocket": 100, "maxWattsPerSocket": 225},
                }
            },
        }
    ).status
    whole = PodDemand(cpu_cores=128)
    for power in (PowerReader()(node, status), PowerReader()(node, None), PowerReader()(None, status)):
        assert marginal_watts(whole, power, Coefficients(cpu_util=1)).cpu_watts == pytest.approx(225)
        assert marginal_watts(whole, power, Coefficients(cpu_util=0.8)).cpu_watts == pytest.approx(180)


@pytest.mark.parametrize("product", ["NVIDIA-X9000", "AMD-Instinct-MI999"])
def test_a_gpu_of_which_only_the_vendor_is_known_costs_a_pod_as_much_as_an_unknown_one(product):
    node = Node("n", labels=LABELS | {"nvidia.com/gpu.product": product}, allocatable={"nvidia.com/gpu": "4"})
    power = PowerReader()(node, None)
    assert (power.gpu_count, power.watts_per_gpu) == (4, 700)
