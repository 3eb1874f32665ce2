"""The demo's pods without Joulie, in the discrete-event simulator."""

import pytest

from joulie_core.demand import WorkloadClass
from joulie_core.hardware.inventory import Inventory
from joulie_devcluster.control_plane.nodes import default_node_classes, scale
from joulie_sim.demo.options import parse_options
from joulie_sim.demo.record import RunRecord
from joulie_sim.demo.settings import demo_arm
from joulie_sim.demo.sleeping.wall_power import WallPower
from joulie_sim.demo.without_joulie import DemoArm, DemoComparison, PackagePowerModel, compare_without_joulie
from joulie_sim.engine.arm import Arm
from joulie_sim.engine.joulie_settings import JoulieSettings
from joulie_sim.engine.machines import machines_of
from joulie_sim.engine.node_lists import nodes_of_classes
from joulie_sim.physics.operation import Load, operate
from joulie_sim.physics.parts import Controls
from joulie_sim.workload.item import WorkItem

CLASSES = scale(default_node_classes(), 10)


@pytest.mark.parametrize("cap", [None, 0.5])
@pytest.mark.parametrize("throttle_pct", [0.0, 40.0])
@pytest.mark.parametrize("busy", [0.0, 0.35, 1.0, 1.2])
def test_machines_draw_and_work_as_those_of_the_demo(cap, throttle_pct, busy) -> None:
    for group in machines_of(nodes_of_classes(CLASSES), Inventory.load()).groups:
        cpu = group.hardware.cpu
        controls = Controls(cpu_cap_watts=cap and cap * cpu.max_watts, throttle_pct=throttle_pct)
        cores = busy * cpu.cores
        live = operate(group.hardware, controls, [Load(cores=cores, cpu_utilization=1.0)] if cores else [])
        draw = PackagePowerModel(group).server(cores, controls)
        assert draw.wall_watts == draw.packages.watts == pytest.approx(live.cpu_watts)
        assert draw.packages.speed(1.0) == pytest.approx(live.cpu_speed)


JOULIE = JoulieSettings(policy="static_partition", policy_values={"static_hp_frac": 0.2})


def arm_of(kwh):
    return DemoArm(kwh=kwh, slowdowns={}, waits={}, transitions=3, power_offs=0)


def pods():
    """Return eight standard pods of 32 cores, and a record in which they were created after 10 s."""
    items = [
        WorkItem(
            name=f"p{number}",
            arrives_s=0.0,
            workload_class=WorkloadClass.STANDARD,
            cpu_milli=32_000,
            memory_mib=1024,
            work_s=60.0,
            cpu_utilization=1.0,
        )
        for number in range(8)
    ]
    record = RunRecord()
    for item in items:
        record.pod_created(item.name, item.workload_class, work_s=item.work_s, now_s=10.0)
    return items, record


@pytest.fixture
def compared():
    items, record = pods()
    return compare_without_joulie(
        CLASSES,
        items,
        record.pods,
        arm=Arm(name="with", summary="", nodes_to_score_pct=100, joulie=JOULIE),
        measured=arm_of(1.0),
        duration_s=65.0,
        report_interval_s=5.0,
    )


def test_pods_run_at_their_times_with_and_without_joulie(compared) -> None:
    assert compared.without.slowdowns[WorkloadClass.PERFORMANCE] is None
    # Nothing but the model decides: the reference's EPYC 7763 is the slowest, EPYC 9354 the fastest.
    assert 1.0 / 1.82 < compared.without.slowdowns[WorkloadClass.STANDARD] < 1.0
    assert compared.without.transitions == 0
    assert compared.simulated.transitions > 0


def test_what_is_measured_is_compared_up_to_the_same_end_and_gives_the_error(compared) -> None:
    machines = machines_of(nodes_of_classes(CLASSES), Inventory.load())
    idle_watts = sum(
        operate(machines.groups[group].hardware, Controls(), []).watts for group in machines.group.tolist()
    )
    # The pods arrive at 10 s and work for 60 s; the measurement ended at 65 s.
    assert compared.measured.kwh == pytest.approx(1.0 + idle_watts * 5.0 / 3.6e6, rel=0.01)
    assert compared.error_pct == pytest.approx(100.0 * (compared.simulated.kwh / compared.measured.kwh - 1.0))
    assert compared.saved_pct == pytest.approx(100.0 * (1.0 - compared.simulated.kwh / compared.without.kwh), abs=0.1)
    assert len(compared.savings_pct) > 1


def test_every_class_has_its_waits_and_the_packing_stands_beside(compared) -> None:
    assert compared.without.waits[WorkloadClass.PERFORMANCE].mean_s is None
    for arm in (compared.simulated, compared.without, compared.packing):
        assert arm.waits[WorkloadClass.STANDARD].longest_s < 1.0
    better = min(compared.without.kwh, compared.packing.kwh)
    assert compared.saved_of_better_pct == pytest.approx(100.0 * (1.0 - compared.simulated.kwh / better))


def test_an_arm_that_sleeps_is_compared_at_the_wall() -> None:
    items, record = pods()
    found = compare_without_joulie(
        CLASSES,
        items,
        record.pods,
        arm=demo_arm(parse_options([])),
        measured=arm_of(20.0),
        duration_s=7200.0,
        report_interval_s=300.0,
    )
    power = WallPower(CLASSES)
    idle_kwh = sum(power.idle_watts(name) for name in power.names) * 7200.0 / 3.6e6
    assert found.without.kwh == pytest.approx(idle_kwh, rel=0.02)
    assert found.without_watts[0][0] == 60.0
    assert found.without_watts[0][1] > idle_kwh / 2.0 * 1000.0
    # The pods are done after two minutes, so that nothing falls asleep by then.
    assert found.simulated.power_offs == found.without.power_offs == 0


@pytest.mark.parametrize(
    ("measured_kwh", "simulated_kwh", "savings_pct", "conclusion"),
    [
        (100.0, 99.0, (0.4, 0.6), "no saving shown: the difference of +0.5 % is within {} (-0.6 to +1.6 %)"),
        (100.0, 101.0, (-0.6, -0.4), "no saving shown: the difference of -0.5 % is within {} (-1.6 to +0.6 %)"),
        (100.0, 100.0, (-1.0, 2.0), "no saving shown: the difference of +0.5 % is within {} (-1.0 to +2.0 %)"),
        (100.0, 99.0, (9.0, 11.0), "Joulie saves 10.0 %, 8.0 to 12.0 % with {}"),
        (100.0, 99.0, (-9.0, -11.0), "Joulie costs 10.0 %, 8.0 to 12.0 % with {}"),
    ],
)
def test_a_difference_within_error_and_chance_is_not_called_a_saving(
    measured_kwh, simulated_kwh, savings_pct, conclusion
) -> None:
    arms = {"measured": measured_kwh, "simulated": simulated_kwh, "without": 100.0, "packing": 100.0}
    found = DemoComparison(**{name: arm_of(kwh) for name, kwh in arms.items()}, savings_pct=savings_pct)
    error = f"the simulator's error of {abs(simulated_kwh - measured_kwh):.1f} % and chance"
    assert found.conclusion == conclusion.format(error)
