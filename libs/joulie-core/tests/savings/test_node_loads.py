"""Models of what pods add to a node, and the error that is stated for each."""

import pytest

from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import view_from_node
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.power.curves import MEASURED_ERROR, NEW_CPU_ERROR, TDP_ERROR
from joulie_core.power.server import server_power
from joulie_core.savings.node_loads import HeldLoad, load_model

_INVENTORY = Inventory.load()


def _view(cpu: str, cores: int = 128, gpus: int = 0):
    labels = {"joulie.io/hw.cpu-model": cpu, "joulie.io/hw.cpu-sockets": "2"}
    if gpus:
        labels["nvidia.com/gpu.product"] = "NVIDIA-A100-SXM4-80GB"
    allocatable = {"cpu": str(2 * cores), "memory": "512Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    return view_from_node(Node(NodeName("n"), labels=labels, allocatable=allocatable, capacity=allocatable), _INVENTORY)


@pytest.mark.parametrize(
    ("cpu", "error"),
    [
        ("AMD-EPYC-7763", MEASURED_ERROR),
        ("AMD-EPYC-7443", TDP_ERROR),
        ("AMD-EPYC-9654", NEW_CPU_ERROR),
    ],
)
def test_the_error_is_that_of_what_the_curve_is_from(cpu, error):
    model = load_model(_view(cpu))
    assert model is not None
    assert model.error == error


def test_watts_above_idle_are_those_of_the_server_at_the_mean_use():
    view = _view("AMD-EPYC-7763")
    model = load_model(view)
    assert model is not None
    assert view.cpu is not None
    server = server_power(view.cpu.spec, 2, 512.0)
    assert model.watts(HeldLoad(cores=128.0)) == pytest.approx(server.wall_at(0.4) - server.wall_at(0.0))
    assert model.watts(HeldLoad()) == 0.0


def test_a_gpu_adds_its_losses_and_fans_at_the_wall():
    view = _view("AMD-EPYC-7763", gpus=8)
    model = load_model(view)
    assert model is not None
    assert view.gpu is not None
    added = view.gpu.spec.curve.watts(0.6, view.gpu.max_watts) - view.gpu.spec.curve.watts(0.0, view.gpu.max_watts)
    assert model.watts(HeldLoad(gpus=2.0)) == pytest.approx(2.0 * added * (1 / 0.94 + 0.15))
    assert model.gpus == 8.0
    # Of a GPU that is handed out in four parts each is a quarter.
    shared = load_model(view, 4.0)
    assert shared is not None
    assert shared.watts(HeldLoad(gpus=8.0)) == pytest.approx(model.watts(HeldLoad(gpus=2.0)))
    assert model.family == view.gpu.model


def test_unknown_cpus_have_no_model():
    assert load_model(view_from_node(Node(NodeName("n")), _INVENTORY)) is None
