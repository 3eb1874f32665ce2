"""Where the figures of the power estimate come from."""

from joulie_core.kinds.node_hardware import NodeHardware
from joulie_core.node import Node
from joulie_core.powerest.marginal import NodePower
from joulie_extender.hardware import PowerReader

LABELS = {"joulie.io/hw.cpu-model": "AMD EPYC 9654", "joulie.io/hw.cpu-sockets": "2", "joulie.io/hw.cpu-cores": "192"}


def test_discovery_gives_the_figures_of_the_whole_node(make_hardware):
    status = NodeHardware.model_validate(make_hardware("n", cores=96, watts=800, gpus=4, gpu_watts=700)).status
    expected = NodePower(cpu_cores=96, cpu_max_watts=800, gpu_count=4, gpu_max_watts=2_800)
    assert PowerReader()(None, status) == expected
    assert PowerReader()(Node("n", labels=LABELS), status) == expected


def test_labels_stand_in_for_discovery():
    power = PowerReader()(Node("n", labels=LABELS), None)
    assert power.cpu_cores == 192
    assert power.cpu_max_watts > 500
    assert power.gpu_count == 0


def test_nothing_known_is_nothing_claimed():
    assert PowerReader()(None, None) == NodePower()
