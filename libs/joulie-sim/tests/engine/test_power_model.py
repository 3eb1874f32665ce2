"""The calibrated models as the engine reads them, against the functions of joulie_core."""

import pytest

from joulie_core.hardware.clock_sweeps import ClockSweeps
from joulie_core.power.chassis import gpus_at_wall
from joulie_core.power.draw import draw_under
from joulie_core.power.server import server_power
from joulie_sim.engine.power_model import CalibratedPowerModel, LimitedGpuWork
from joulie_sim.physics.parts import Controls

_GIB = 1024**3


@pytest.mark.parametrize("throttle_pct", [0.0, 40.0, 100.0])
@pytest.mark.parametrize("cap_share", [None, 0.5])
@pytest.mark.parametrize("load", [0.0, 0.35, 1.0])
def test_caps_and_throttles_cost_what_joulie_core_states(machines, throttle_pct, cap_share, load) -> None:
    for group in machines.groups:
        model, cpu = CalibratedPowerModel(group), group.hardware.cpu
        cap_watts = None if cap_share is None else cap_share * cpu.max_cap_watts
        controls = Controls(cpu_cap_watts=cap_watts, throttle_pct=throttle_pct)
        # Twice: the second answer is a kept one.
        draws = [model.server(load * cpu.cores, controls) for _ in range(2)]
        assert draws[0] == draws[1]
        spec = group.view.cpu.spec
        server = server_power(spec, cpu.sockets, group.view.memory_bytes / _GIB or None)
        for sensitivity in (1.0, 0.4, 0.0):
            expected = draw_under(
                spec.curve.response,
                server.packages_at(load),
                server.idle_packages_watts,
                cap_watts=(cpu.max_cap_watts if cap_watts is None else cap_watts) * cpu.sockets,
                throttled_share=throttle_pct / 100.0,
                sensitivity=sensitivity,
            )
            assert draws[0].packages.watts == expected.watts
            assert draws[0].packages.speed(sensitivity) == pytest.approx(expected.speed)
        assert draws[0].wall_watts == pytest.approx(server.wall_with(load, draws[0].packages.watts))


def test_a_throttle_draws_less_and_slows_compute_more_than_io(machines) -> None:
    group = machines.groups[0]
    model, cores = CalibratedPowerModel(group), group.hardware.cpu.cores
    free, held = model.server(cores, Controls()), model.server(cores, Controls(throttle_pct=50.0))
    assert held.packages.watts < free.packages.watts
    assert held.wall_watts < free.wall_watts
    assert held.packages.speed(1.0) == pytest.approx(0.75)
    assert held.packages.speed(1.0) < held.packages.speed(0.1) < 1.0 == free.packages.speed(1.0)


def test_gpus_count_at_the_wall_with_the_chassis_around_them_and_a_node_without_gpus_has_none(machines) -> None:
    for group in machines.groups:
        model, view = CalibratedPowerModel(group), group.view
        most = view.gpu.count * view.gpu.max_watts if view.gpu is not None else 0.0
        assert model.wall_watts(0.5 * most) == pytest.approx(gpus_at_wall(0.5 * most, most))
        assert model.wall_watts(0.0) == pytest.approx(0.15 * most)


@pytest.mark.parametrize("memory_bound", [False, True])
@pytest.mark.parametrize("clock_share", [0.9, 0.75])
def test_a_gpu_at_a_lower_clock_is_as_the_sweep_has_it_at_full_load_and_idles_as_before(
    machines, memory_bound, clock_share
) -> None:
    for group in machines.groups:
        gpu, model = group.hardware.gpu, CalibratedPowerModel(group)
        clock = LimitedGpuWork(clock_share, memory_bound)
        if gpu is None:
            assert model.gpu(1.0, Controls(), clock).watts == 0.0
            continue
        point = ClockSweeps.load().of(group.view.gpu.model).at(clock_share, memory_bound=memory_bound)
        draws = [model.gpu(1.0, Controls(), clock) for _ in range(2)]
        assert draws[0] == draws[1]
        assert draws[0].watts == pytest.approx(point.power * gpu.max_watts)
        assert draws[0].speed == pytest.approx(point.speed)
        assert model.gpu(0.0, Controls(), clock).watts == model.gpu(0.0, Controls()).watts
        assert model.gpu(0.5, Controls(), clock).watts < model.gpu(0.5, Controls()).watts


def test_a_cap_below_what_a_lower_clock_draws_slows_further(machines) -> None:
    group = next(each for each in machines.groups if each.hardware.gpu is not None)
    model, clock = CalibratedPowerModel(group), LimitedGpuWork(0.9, memory_bound=False)
    free = model.gpu(1.0, Controls(), clock)
    capped = model.gpu(1.0, Controls(gpu_cap_watts=0.8 * free.watts), clock)
    assert capped.watts == pytest.approx(0.8 * free.watts)
    assert capped.speed < free.speed
    assert model.gpu(1.0, Controls(gpu_cap_watts=1.01 * free.watts), clock) == free
