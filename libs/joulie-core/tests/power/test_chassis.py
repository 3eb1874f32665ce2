import pytest

from joulie_core.hardware.inventory import Inventory
from joulie_core.power.chassis import gpus_at_wall
from joulie_core.power.server import SUPPLY_EFFICIENCY, server_power

XEON = Inventory.load().cpus["intel-xeon-8480"]


def chassis_watts(gpu_watts, highest_watts):
    return gpus_at_wall(gpu_watts, highest_watts) - gpu_watts / SUPPLY_EFFICIENCY


def test_eight_h100_in_training_draw_what_was_measured_with_their_server():
    server = server_power(XEON, 2, 2048)
    least, most = (server.wall_at(load) + gpus_at_wall(8 * 700.0, 8 * 700.0) for load in (0.0, 1.0))
    assert least < 8_400.0 < most < 10_200.0


def test_the_rating_of_the_machine_leaves_1_9_times_as_much_the_upper_end_of_the_band():
    server = server_power(XEON, 2, 2048).wall_at(1.0)
    left = 10_200.0 - server - 5_600.0 / SUPPLY_EFFICIENCY
    assert left / chassis_watts(5_600.0, 5_600.0) == pytest.approx(1.9, abs=0.05)


def test_half_of_it_is_always_drawn_and_the_rest_follows_what_the_gpus_draw():
    assert chassis_watts(0.0, 1_000.0) == pytest.approx(150.0)
    assert chassis_watts(1_000.0, 1_000.0) == pytest.approx(300.0)
    assert chassis_watts(400.0, 1_000.0) == pytest.approx(210.0)


def test_a_server_without_gpus_has_none_of_it():
    assert gpus_at_wall(0.0, 0.0) == 0.0
