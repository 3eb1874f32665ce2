"""What a limit would save and cost at one moment."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.class_caps.gpu_limits import GpuLimit, LimitReason
from joulie_core.class_caps.limit_effect import NO_EFFECT, EffectBand, GpuLoad, NotStated, limit_effect
from joulie_core.hardware.clock_sweeps import ClockSweeps
from joulie_core.hardware.device_view import device_view
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds.node_hardware import GpuDevice

INVENTORY = Inventory.load()


def gpu_of(model):
    return device_view(GpuDevice(uuid="GPU-a", index=0, model=model), INVENTORY)


V100, A100, H100 = gpu_of("NVIDIA V100 PCIe"), gpu_of("NVIDIA A100 PCIe 80GB"), gpu_of("NVIDIA H100 80GB HBM3")
BUSY = GpuLoad(clock_mhz=1410, busy_share=1.0, watts=300.0)


def clock(mhz):
    return GpuLimit(LimitReason.CLOCK_LIMITED, clock_mhz=mhz)


def power(watts):
    return GpuLimit(LimitReason.POWER_LIMITED, cap_watts=watts)


def test_a_limit_of_a_swept_model_saves_between_memory_bound_and_compute_bound_work():
    # 0.85 of the held clock: power 0.606 and 0.745, speed 0.854 and 1.
    effect = limit_effect(clock(1199), BUSY, A100, 1410)

    assert effect.saved_watts.lower == pytest.approx(300 * (1 - 0.745), rel=0.01)
    assert effect.saved_watts.upper == pytest.approx(300 * (1 - 0.606), rel=0.01)
    assert effect.slowdown_pct == EffectBand(0.0, pytest.approx(17.6, abs=0.1))


def test_work_that_is_held_below_its_clock_already_loses_what_is_left():
    effect = limit_effect(clock(1200), GpuLoad(1300, 1.0, 250.0), A100, 1410)

    assert effect.slowdown_pct.upper == pytest.approx(100 * (1300 / 1200 - 1))
    assert effect.saved_watts.upper < limit_effect(clock(1200), BUSY, A100, 1410).saved_watts.upper


@pytest.mark.parametrize("load", [GpuLoad(1200, 1.0, 200.0), GpuLoad(900, None, None), GpuLoad(1410, 0.0, 60.0)])
def test_a_limit_that_does_not_bind_and_one_without_work_change_nothing(load):
    assert limit_effect(clock(1200), load, A100, 1410) == NO_EFFECT


def test_of_a_model_that_was_not_swept_the_bound_of_the_slowdown_alone_is_stated():
    for gpu in (H100, None):
        effect = limit_effect(clock(1200), BUSY, gpu, 1410)
        assert effect.saved_watts is NotStated.MODEL_NOT_SWEPT
        assert effect.slowdown_pct == EffectBand(0.0, pytest.approx(17.5))


def test_a_gpu_that_is_busy_for_a_part_of_the_time_is_slowed_in_that_part_and_its_power_is_not_stated():
    effect = limit_effect(clock(1200), GpuLoad(1410, 0.4, 120.0), A100, 1410)
    assert effect.saved_watts is NotStated.NOT_LOADED
    assert effect.slowdown_pct.upper == pytest.approx(0.4 * 17.5)


@pytest.mark.parametrize("load", [GpuLoad(None, 1.0, 300.0), GpuLoad(1410, None, 300.0)])
def test_what_was_not_measured_is_not_zero(load):
    effect = limit_effect(clock(1200), load, A100, 1410)
    assert (effect.saved_watts, effect.slowdown_pct) == (NotStated.NOT_MEASURED, NotStated.NOT_MEASURED)


def test_without_power_the_slowdown_alone_is_stated():
    effect = limit_effect(clock(1200), GpuLoad(1410, 1.0, None), A100, 1410)
    assert effect.saved_watts is NotStated.NOT_MEASURED
    assert isinstance(effect.slowdown_pct, EffectBand)


def test_a_power_limit_saves_what_is_drawn_above_it_and_its_slowdown_is_a_forecast():
    effect = limit_effect(power(225.0), BUSY, None, None)
    assert (effect.saved_watts, effect.slowdown_pct) == (EffectBand(75.0, 75.0), NotStated.FORECAST_ONLY)
    assert limit_effect(power(300.0), BUSY, None, None) == NO_EFFECT
    assert limit_effect(power(225.0), GpuLoad(), None, None).saved_watts is NotStated.NOT_MEASURED


def test_without_a_limit_there_is_no_effect():
    assert limit_effect(GpuLimit(LimitReason.FREE), BUSY, A100, 1410) is None


@given(
    model=st.sampled_from([*ClockSweeps.load().models]),
    held=st.integers(600, 2500),
    share=st.floats(0.5, 0.99),
    now=st.floats(0.5, 1.0),
    busy=st.floats(0.0, 1.0),
)
def test_a_band_is_never_below_zero_nor_beyond_the_clock(model, held, share, now, busy):
    load = GpuLoad(round(held * now), busy, 200.0)
    limit_mhz = round(held * share)
    effect = limit_effect(clock(limit_mhz), load, gpu_of(model), held)

    for band in (effect.saved_watts, effect.slowdown_pct):
        if isinstance(band, EffectBand):
            assert 0.0 <= band.lower <= band.upper
    assert effect.slowdown_pct.upper <= max(0.0, 100 * (load.clock_mhz / limit_mhz - 1)) + 1e-9
    if isinstance(effect.saved_watts, EffectBand):
        assert effect.saved_watts.upper < 200.0


@pytest.mark.parametrize("model", ["", "NVIDIA", "a GPU of tomorrow"])
def test_a_model_of_which_not_more_than_the_vendor_is_known_has_no_view(model):
    assert gpu_of(model) is None


def test_the_view_of_a_gpu_has_its_own_limits():
    view = device_view(GpuDevice(uuid="a", index=0, model="NVIDIA H100 SXM", min=250.0, max=650.0), INVENTORY)
    assert (view.model, view.min_watts, view.max_watts) == ("NVIDIA H100 SXM", 250.0, 650.0)
