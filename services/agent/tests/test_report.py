"""When the report about a node is worth a write."""

from joulie_agent.report import HEARTBEAT_S, POWER_HOLD_S, compose
from joulie_core.control_result import ControlResult
from joulie_core.kinds.telemetry_profile import (
    ControlPlace,
    ControlReport,
    ControlReports,
    PowerReading,
    TelemetryProfileStatus,
)
from joulie_core.timestamps import epoch_seconds

START = "2026-01-01T00:00:00.000Z"
CPU = ControlReport(
    backend="http-rapl", result="applied", reason="Capped", requested_watts=150, enforced_watts=150, updated_at=START
)
GPU = ControlReport(reason="NoIntent", updated_at=START)
LAST = TelemetryProfileStatus(
    control=ControlReports(cpu=CPU, gpu=GPU), power=PowerReading(cpu_watts=300, gpu_watts=900, updated_at=START)
)


def at(seconds):
    return f"2026-01-01T00:{int(seconds) // 60:02}:{seconds % 60:06.3f}Z"


def next_status(*, last=LAST, cpu=None, gpu=None, cpu_watts=300.0, gpu_watts=900.0, after_s=20.0, **more):
    bare = {"updated_at": None}
    return compose(
        last=last,
        cpu=(CPU if cpu is None else cpu).model_copy(update=bare),
        gpu=(GPU if gpu is None else gpu).model_copy(update=bare),
        cpu_watts=cpu_watts,
        gpu_watts=gpu_watts,
        now_s=epoch_seconds(at(after_s)),
        **more,
    )


def test_nothing_new_is_nothing_to_write():
    assert next_status() == LAST


def test_the_first_report_is_dated_now():
    status = next_status(last=TelemetryProfileStatus())
    assert status.control.cpu.updated_at == status.power.updated_at == at(20)


def test_a_new_result_is_written_with_its_time_and_the_rest_stays():
    failing = ControlReport(backend="http-rapl", result="error", reason="Timeout", requested_watts=150)
    status = next_status(cpu=failing)
    assert status.control.cpu == failing.model_copy(update={"updated_at": at(20)})
    assert (status.control.gpu, status.power) == (GPU, LAST.power)


def test_a_read_back_that_trembles_is_not_written_and_one_that_moves_is():
    assert next_status(cpu=CPU.model_copy(update={"enforced_watts": 150.4})) == LAST
    assert next_status(cpu=CPU.model_copy(update={"enforced_watts": 152})).control.cpu.enforced_watts == 152


def test_an_enforced_cap_that_disappears_is_written():
    assert next_status(cpu=CPU.model_copy(update={"enforced_watts": None})).control.cpu.enforced_watts is None


def test_other_words_for_the_same_cause_wait_for_the_heartbeat():
    reworded = CPU.model_copy(update={"message": "other words"})
    assert next_status(cpu=reworded) == LAST
    assert next_status(cpu=reworded, after_s=HEARTBEAT_S).control.cpu.message == "other words"


def test_power_is_written_when_it_moves_by_more_than_two_percent():
    assert next_status(cpu_watts=305) == LAST
    assert next_status(cpu_watts=307).power == PowerReading(cpu_watts=307, gpu_watts=900, updated_at=at(20))


def test_steady_power_is_dated_anew_once_in_a_heartbeat():
    assert next_status(after_s=HEARTBEAT_S - 1) == LAST
    assert next_status(after_s=HEARTBEAT_S).power.updated_at == at(HEARTBEAT_S)


def test_a_failed_reading_keeps_the_last_one_and_then_withdraws_it():
    assert next_status(cpu_watts=None, gpu_watts=None, after_s=POWER_HOLD_S - 1).power == LAST.power
    assert next_status(cpu_watts=None, gpu_watts=None, after_s=POWER_HOLD_S).power is None


def test_zero_watts_is_a_reading():
    assert next_status(gpu_watts=0.0).power.gpu_watts == 0


def test_a_time_that_cannot_be_read_counts_as_long_ago():
    last = LAST.model_copy(update={"power": PowerReading(cpu_watts=300, gpu_watts=900, updated_at="yesterday")})
    assert next_status(last=last).power.updated_at == at(20)


def test_other_watts_are_postponed_and_no_longer():
    lowered = CPU.model_copy(update={"requested_watts": 120, "enforced_watts": 120, "message": "by the budget"})
    moved = {"cpu": lowered, "cpu_watts": 250, "after_s": HEARTBEAT_S - 1}
    assert next_status(**moved, postponed=True) == LAST
    status = next_status(**moved)
    assert (status.control.cpu.enforced_watts, status.power.cpu_watts) == (120, 250)


def test_a_postponed_report_still_tells_what_a_restart_or_a_condition_needs():
    for change in (
        {"result": ControlResult.ERROR, "reason": "Timeout"},
        {"backend": "http-dvfs"},
        {"throttle_pct": 20.0},
        {"places": (ControlPlace(type="host", cap="in-force"),)},
    ):
        told = next_status(cpu=CPU.model_copy(update=change), postponed=True).control.cpu
        assert {key: getattr(told, key) for key in change} == change


def test_a_postponed_report_dates_power_once_in_a_heartbeat_as_any():
    status = next_status(cpu_watts=250, after_s=HEARTBEAT_S, postponed=True)
    assert status.power == PowerReading(cpu_watts=250, gpu_watts=900, updated_at=at(HEARTBEAT_S))
