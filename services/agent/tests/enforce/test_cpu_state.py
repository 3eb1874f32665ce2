"""What is remembered of a node's CPU controls: after a restart, and after each answer of a backend."""

from dataclasses import replace

import pytest
from msgspec import structs

from joulie_actuator.outcome import ControlOutcome, applied, blocked, failed
from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import CpuHeld, CpuReading, Held
from joulie_agent.enforce.cpu_state import (
    FREE,
    CpuControlState,
    CpuMode,
    cap_noted,
    cap_released,
    recalled,
    seeded,
    throttle_noted,
    throttle_released,
)
from joulie_core.control.dvfs import DvfsState
from joulie_core.control_result import ControlResult
from joulie_core.kinds.telemetry_profile import ControlPlace, ControlReport

NO, PERHAPS, YES = Held.NO, Held.PERHAPS, Held.YES
TIMEOUT = failed("http", Reason.TIMEOUT, "no answer")
BUSY = failed("http", Reason.BACKEND_FAILED, "busy")
DECLINED = blocked("http", Reason.REFUSED, "declined")


def holding(cap=NO, throttle=NO, **fields):
    return CpuControlState(held=CpuHeld(cap, throttle), **fields)


def test_modes_have_the_names_that_the_metric_shows():
    assert tuple(CpuMode) == ("none", "rapl", "dvfs")


@pytest.mark.parametrize(
    ("cap", "throttle", "in_force"),
    [(NO, NO, False), (PERHAPS, NO, True), (NO, PERHAPS, True), (YES, YES, True)],
)
def test_what_may_be_in_force_counts(cap, throttle, in_force):
    assert holding(cap, throttle).in_force is in_force


def test_no_throttle_is_reported_as_none():
    assert holding().throttle_pct is None
    assert holding(dvfs=DvfsState(throttle_pct=0.5)).throttle_pct == 0.5


@pytest.mark.parametrize(("throttle_pct", "mode"), [(None, CpuMode.NONE), (0, CpuMode.NONE), (0.5, CpuMode.DVFS)])
def test_a_report_names_what_is_in_force_at_its_places_and_figures_of_the_first(throttle_pct, mode):
    places = [
        ControlPlace(type="host", cap=YES, throttle=PERHAPS),
        ControlPlace(type="none", cap=NO, throttle=YES),
    ]
    report = ControlReport(places=places, enforced_watts=240, throttle_pct=throttle_pct)
    assert recalled(report, 0) == CpuControlState(
        mode=mode,
        dvfs=DvfsState(throttle_pct=throttle_pct or 0),
        held=CpuHeld(YES, PERHAPS),
        cap_watts=240,
        throttle_known=throttle_pct is not None,
    )
    assert recalled(report, 1) == CpuControlState(held=CpuHeld(NO, YES))
    assert recalled(report, 1).mode is CpuMode.NONE


@pytest.mark.parametrize(("found_pct", "throttle"), [(50.0, YES), (0.5, YES), (0.0, NO)])
def test_the_throttle_that_a_backend_reads_is_taken_over_once(found_pct, throttle):
    state = seeded(holding(cap=YES, throttle=PERHAPS, cap_watts=200), CpuReading(throttle_pct=found_pct))
    assert state.held == CpuHeld(YES, throttle)
    assert (state.dvfs.throttle_pct, state.throttle_known, state.cap_watts) == (found_pct, True, 200)
    assert seeded(state, CpuReading(throttle_pct=70.0)) is state


@pytest.mark.parametrize("reading", [None, CpuReading(power_watts=300)])
def test_a_throttle_that_is_not_read_stays_unknown(reading):
    state = holding(throttle=PERHAPS)
    assert seeded(state, reading) is state


@pytest.mark.parametrize(
    ("outcome", "before", "after", "watts"),
    [
        (applied("rapl", enforced_watts=180), NO, YES, 180),
        (ControlOutcome(ControlResult.APPLIED, Reason.RESTORED, "rapl", enforced_watts=400), YES, NO, None),
        (structs.replace(blocked("rapl", Reason.HELD_BY_FIRMWARE), enforced_watts=300), NO, YES, 300),
        (structs.replace(failed("rapl", Reason.PARTLY_APPLIED), enforced_watts=300), PERHAPS, YES, 300),
        (TIMEOUT, NO, PERHAPS, 200),
        (TIMEOUT, YES, YES, 200),
        (BUSY, NO, NO, 200),
        (DECLINED, NO, NO, 200),
        (blocked("rapl", Reason.RESTORED), YES, YES, 200),
    ],
)
def test_a_cap_is_remembered_as_far_as_its_answer_goes(outcome, before, after, watts):
    state = cap_noted(holding(before, YES, cap_watts=200), outcome)
    assert state == holding(after, YES, cap_watts=watts)


@pytest.mark.parametrize(
    ("outcome", "throttle_pct", "before", "after"),
    [
        (applied("dvfs"), 0.5, NO, YES),
        (applied("dvfs"), 0.0, YES, NO),
        (TIMEOUT, 0.5, NO, PERHAPS),
        (TIMEOUT, 0.0, NO, NO),
        (TIMEOUT, 30.0, YES, YES),
        (TIMEOUT, 0.0, YES, YES),
        (BUSY, 30.0, NO, NO),
        (DECLINED, 30.0, NO, NO),
        (DECLINED, 0.0, YES, YES),
    ],
)
def test_a_throttle_is_remembered_as_far_as_its_answer_goes(outcome, throttle_pct, before, after):
    assert throttle_noted(holding(YES, before), outcome, throttle_pct) == holding(YES, after)


def test_what_was_released_is_forgotten_and_nothing_else():
    state = holding(YES, YES, cap_watts=200, dvfs=DvfsState(throttle_pct=30), mode=CpuMode.DVFS)
    assert cap_released(state) == replace(state, held=CpuHeld(NO, YES), cap_watts=None)
    released = throttle_released(state)
    assert released == replace(state, held=CpuHeld(YES, NO), dvfs=DvfsState(), throttle_known=True)
    assert throttle_released(cap_released(holding(YES, YES, cap_watts=200))) == FREE
