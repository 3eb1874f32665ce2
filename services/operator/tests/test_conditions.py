"""Conditions of a target: their content, when their times change, what they repeat of the agent's report."""

import pytest

from joulie_core.kinds.node_power_profile import CpuTarget, GpuPowerCap, GpuTarget, NodePowerProfileSpec, PolicyNote
from joulie_core.kinds.telemetry_profile import ControlReport, ControlReports, TelemetryProfile
from joulie_operator.conditions import NO_REPORT, ReportCache, conditions_of, refusal, report_of
from joulie_operator.workqueue import ChangeScope, ClusterChange
from joulie_testing.api import make_telemetry_profile

CPU, GPU = CpuTarget(package_power_cap_pct_of_max=60), GpuTarget(power_cap=GpuPowerCap(cap_pct_of_max=60))
APPLIED = ControlReport(backend="rapl", result="applied", reason="Capped", message="noise", enforced_watts=112.4)
BLOCKED = ControlReport(backend="nvml", result="blocked", reason="NotPermitted", message="run as root")
FAILED = ControlReport(backend="http-rapl", result="error", reason="Timeout", message="no answer")
IDLE = ControlReport(result="none", reason="NoProfile")


def spec(*, draining=False, cpu=CPU, gpu=None):
    note = PolicyNote(name="static_partition", reason="beyond the performance count")
    return NodePowerProfileSpec(node_name="n1", profile="eco", draining=draining, cpu=cpu, gpu=gpu, policy=note)


def conditions(target, report=NO_REPORT, *, cordoned=False, before=(), now="T1"):
    return {each.type: each for each in conditions_of(target, report, cordoned=cordoned, before=before, now=now)}


def reported(cpu=None, gpu=None):
    return report_of(ControlReports(cpu=cpu, gpu=gpu))


def test_planned_names_the_policy_and_its_reason():
    planned = conditions(spec())["Planned"]
    assert (planned.status, planned.reason) == ("True", "Policy")
    assert planned.message == "eco by static_partition: beyond the performance count"


def test_a_cordoned_node_is_not_planned():
    planned = conditions(spec(), cordoned=True)["Planned"]
    assert (planned.status, planned.reason) == ("False", "Cordoned")


def test_draining_keeps_the_time_since_when():
    before = conditions(spec(draining=True), now="T1")
    later = conditions(spec(draining=True), reported(cpu=APPLIED), before=before.values(), now="T2")
    assert (later["Draining"].status, later["Draining"].last_transition_time) == ("True", "T1")
    done = conditions(spec(), reported(cpu=APPLIED), before=later.values(), now="T3")
    assert (done["Draining"].status, done["Draining"].last_transition_time) == ("False", "T3")
    assert done["Planned"].last_transition_time == "T1"
    assert done["Enforced"].last_transition_time == "T2"


@pytest.mark.parametrize(
    ("target", "report", "status", "reason"),
    [
        (spec(), NO_REPORT, "Unknown", "NotReported"),
        (spec(), reported(cpu=IDLE), "Unknown", "NoProfile"),
        (spec(), reported(cpu=APPLIED), "True", "Capped"),
        (spec(), reported(cpu=APPLIED, gpu=BLOCKED), "True", "Capped"),
        (spec(gpu=GPU), reported(cpu=APPLIED, gpu=BLOCKED), "False", "NotPermitted"),
        (spec(gpu=GPU), reported(cpu=FAILED, gpu=BLOCKED), "False", "Timeout"),
        (spec(gpu=GPU), reported(cpu=APPLIED), "Unknown", "NotReported"),
        (spec(gpu=GPU), reported(gpu=BLOCKED), "False", "NotPermitted"),
        (spec(cpu=None), NO_REPORT, "True", "NoIntent"),
    ],
)
def test_enforced_is_the_worst_result_of_the_subsystems_that_the_target_names(target, report, status, reason):
    enforced = conditions(target, report)["Enforced"]
    assert (enforced.status, enforced.reason) == (status, reason)


def test_the_agents_message_is_repeated_for_failures_only():
    message = conditions(spec(gpu=GPU), reported(cpu=APPLIED, gpu=BLOCKED))["Enforced"].message
    assert message == "cpu: rapl applied, 112 W; gpu: nvml blocked, run as root"


def test_a_refusal_is_reported_once_for_each_reason():
    fine = conditions(spec(), reported(cpu=APPLIED)).values()
    blocked = conditions(spec(), reported(cpu=BLOCKED), before=fine).values()
    failed = conditions(spec(), reported(cpu=FAILED), before=blocked).values()
    assert refusal((), fine) is None
    assert refusal(fine, blocked).reason == "NotPermitted"
    assert refusal(blocked, blocked) is None
    assert refusal(blocked, failed).reason == "Timeout"
    assert refusal(failed, fine) is None


def test_a_report_with_another_message_only_changes_nothing():
    changed = []
    cache = ReportCache(changed.append)
    cache.on_profile("n1", profile(APPLIED))
    cache.on_profile(
        "n1", profile(APPLIED.model_copy(update={"message": "other", "updated_at": "2026-01-01T00:00:00Z"}))
    )
    assert changed == [ClusterChange(ChangeScope.REPORT, "n1")]
    cache.on_profile("n1", profile(FAILED))
    cache.on_profile("n1", None)
    assert changed == [ClusterChange(ChangeScope.REPORT, "n1")] * 3
    assert cache.of("n1") is NO_REPORT


def profile(cpu):
    return TelemetryProfile.model_validate(make_telemetry_profile("n1", control={"cpu": cpu.dump()}))
