"""Where the figures of the power estimate come from."""

import pytest

from joulie_core.kinds.node_hardware import NodeHardware
from joulie_core.node import Node
from joulie_core.powerest.demand import PodDemand
from joulie_core.powerest.marginal import Coefficients, NodePower, marginal_watts
from joulie_extender.hardware import PowerReader

LABELS = {"joulie.io/hw.cpu-model": "AMD EPYC 9654", "joulie.io/hw.cpu-sockets": "2", "joulie.io/hw.cpu-cores": "192"}


def test_discovery_gives_the_figures_of_the_whole_node(make_hardware):
    status = NodeHardware.model_validate(make_hardware("n", cores=96, watts=800, gpus=4, gpu_watts=700)).status
    expected = NodePower(cpu_threads=96, cpu_max_watts=800, gpu_count=4, gpu_max_watts=2_800, cpu_cores=96)
    assert PowerReader()(None, status) == expected
    assert PowerReader()(Node("n", labels=LABELS), status) == expected


def test_labels_stand_in_for_discovery():
    power = PowerReader()(Node("n", labels=LABELS), None)
    assert power.cpu_threads == 192
    assert power.cpu_max_watts > 500
    assert power.gpu_count == 0


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
