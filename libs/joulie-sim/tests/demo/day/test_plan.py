"""What a day is made of: its scale, its policy and its pods."""

import pytest

from joulie_core.hardware.inventory import Inventory
from joulie_devcluster.control_plane.nodes import default_node_classes
from joulie_sim.demo.day.scale import DAY_S, day_scale, stack_config
from joulie_sim.demo.day.workload import ARRIVALS_S, LONGEST_S, day_items
from joulie_sim.demo.options import parse_options
from joulie_sim.engine.machines import machines_of
from joulie_sim.engine.node_lists import nodes_of_classes
from joulie_sim.stack.service import Service
from joulie_sim.workload.item import NVIDIA_GPU

CLASSES = default_node_classes()


@pytest.fixture(scope="module")
def items():
    return day_items(CLASSES, pods=1200, seed=1)


def test_ten_minutes_are_a_day_at_144_times_the_speed():
    day = day_scale(600.0)
    assert day.speed == 144.0
    assert stack_config(day).env[Service.SIM] == {"SIM_SPEED": "144"}


def test_a_seed_gives_the_same_pods_and_another_gives_others(items):
    assert day_items(CLASSES, pods=1200, seed=1) == items
    assert day_items(CLASSES, pods=1200, seed=2) != items


def test_pods_follow_the_daily_cycle_and_can_end_by_midnight(items):
    assert len(items) == 1200
    assert [item.arrives_s for item in items] == sorted(item.arrives_s for item in items)
    assert all(0.0 <= item.arrives_s <= ARRIVALS_S for item in items)
    # No node of the demo is slower than the reference model, but that all GPUs of AMD are faster.
    assert max(item.work_s for item in items if item.gpu_resource == NVIDIA_GPU) <= LONGEST_S
    assert max(item.work_s for item in items) <= 1.72 * LONGEST_S
    assert LONGEST_S <= DAY_S - ARRIVALS_S - 1800.0
    hours = [item.arrives_s / 3600.0 for item in items]
    night, afternoon = (sum(low <= hour < low + 4 for hour in hours) for low in (1, 13))
    assert afternoon > 2.5 * night


def test_the_load_of_the_day_is_three_tenths_of_the_cluster(items):
    machines = machines_of(nodes_of_classes(CLASSES), Inventory.load())
    threads = machines.mean_work_per_thread * machines.allocatable[0].sum() / 1000.0
    without_gpus = sum(item.cpu_milli / 1000.0 * item.work_s for item in items if not item.gpus)
    assert without_gpus / (threads * DAY_S) == pytest.approx(0.3, abs=0.01)
    rates = dict(zip(machines.gpu_resources, machines.mean_work_per_gpu, strict=True))
    with_gpus = sum(item.gpus * item.work_s / rates[item.gpu_resource] for item in items if item.gpus)
    assert with_gpus / (machines.gpus.sum() * DAY_S) == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize(
    "other", [["--trace", "openb", "x"], ["--policy", "static_partition"], ["--preset", "score"], ["--keep"]]
)
def test_a_day_refuses_options_of_a_single_run(other, capsys):
    with pytest.raises(SystemExit):
        parse_options(["--day", *other])
    assert "--day cannot be used" in capsys.readouterr().err


def test_a_day_takes_ten_minutes_with_more_pods_than_a_run():
    options = parse_options(["--day"])
    assert (options.day, options.nodes, options.pods, options.duration_s) == (True, 40, 1200, 600.0)
    assert not parse_options([]).day
