"""The rest of a server: the band of the models, and what one reading of a BMC says of full load."""

from dataclasses import replace

import pytest

from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import view_from_node
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.power.curves import node_curves
from joulie_core.power.rest import measured_rest, modelled_rest
from joulie_core.power.server import SUPPLY_EFFICIENCY

_INVENTORY = Inventory.load()


def view(cpu="AMD-EPYC-7763", gpus=0):
    labels = {"joulie.io/hw.cpu-model": cpu, "joulie.io/hw.cpu-sockets": "2"} if cpu else {}
    if gpus:
        labels["nvidia.com/gpu.product"] = "NVIDIA-H100-80GB-HBM3"
    allocatable = {"cpu": "256", "memory": "512Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    return view_from_node(Node(NodeName("n"), labels=labels, allocatable=allocatable, capacity=allocatable), _INVENTORY)


def test_the_band_is_the_error_of_the_server_around_what_is_not_its_packages():
    found, curves = modelled_rest(view()), node_curves(view())
    wall_watts, packages_watts = curves.wall_watts[-1], curves.packages_watts[-1]
    loss_watts = (560 - packages_watts) * (1 / SUPPLY_EFFICIENCY - 1)
    assert found.least_watts == pytest.approx(0.93 * wall_watts - packages_watts)
    assert found.most_watts == pytest.approx(1.07 * wall_watts - packages_watts + loss_watts)
    assert found.middle_watts == pytest.approx((found.least_watts + found.most_watts) / 2)


def test_gpus_add_their_losses_and_a_band_of_fans_switches_and_adapters():
    plain, found = modelled_rest(view()), modelled_rest(view(gpus=8))
    loss_watts = 5_600 * (1 / SUPPLY_EFFICIENCY - 1)
    assert found.least_watts - plain.least_watts == pytest.approx(loss_watts + 0.8 * 0.3 * 5_600)
    assert found.most_watts - plain.most_watts == pytest.approx(loss_watts + 1.9 * 0.3 * 5_600)


def test_no_server_has_less_than_the_losses_of_its_supplies():
    # Of this model the error is larger than all else.
    assert modelled_rest(view("AMD-EPYC-9654")).least_watts >= 0.04 * 720


def test_without_cpus_nothing_is_known():
    assert modelled_rest(replace(view(), cpu=None)) is None


def test_a_reading_at_full_load_is_taken_as_it_is_with_its_error():
    assert measured_rest(700.0, 560.0, view()) == pytest.approx(1.05 * 700 - 560)
    assert measured_rest(700.0, 600.0, view()) == pytest.approx(1.05 * 700 - 600)


def test_a_reading_at_low_load_has_the_losses_and_fans_of_full_load_added():
    loss = 1 / SUPPLY_EFFICIENCY - 1
    assert measured_rest(200.0, 100.0, view()) == pytest.approx(1.05 * 200 - 100 + loss * 460)
    gpu = view(gpus=8)
    assert measured_rest(900.0, 700.0, gpu) == pytest.approx(1.05 * 900 - 700 + loss * 5_460 + 0.15 * 5_460)
    # GPUs at full load, packages idle: all that is missing may be the packages', and counts for fans all the same.
    assert measured_rest(900.0, 100.0, gpu) == pytest.approx(1.05 * 900 - 100 + loss * 6_060 + 0.15 * 5_600)
