"""Knobs that read the lowest of several requests: Joulie's, the platform's and external ones are distinguished."""

from dataclasses import dataclass, field

import pytest

from joulie_actuator.hardware.journal import Journal
from joulie_actuator.hardware.journal_file import JournalError
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure, KnobKind, KnobLimits
from joulie_actuator.hardware.knob_results import RestoredKnob, RestoreOutcome, WrittenKnob
from joulie_actuator.reasons import Reason

MAX = 3900
KEY = "cpufreq/cpu0/scaling_max_freq"


@dataclass
class Policy:
    """A frequency policy as the kernel keeps it."""

    user: int = MAX
    platform: int = MAX
    #: Whether the machine shows the platform's limit anywhere but in the value.
    shown: bool = True
    #: Drivers round down to a step of theirs.
    step: int = 1
    offline: bool = False
    frozen: bool = False
    writes: list = field(default_factory=list)
    key: str = KEY
    unit: str = "MHz"
    kind: KnobKind = KnobKind.REQUEST
    limits: KnobLimits = field(default_factory=lambda: KnobLimits(800, MAX))

    def read(self):
        if self.offline:
            return HardwareFailure(Reason.IO_ERROR, "busy")
        return min(self.user, self.platform) // self.step * self.step

    def write(self, value):
        if self.offline:
            return HardwareFailure(Reason.IO_ERROR, "busy")
        self.writes.append(value)
        if not self.frozen:
            self.user = value
        return self.read()

    def next_above(self, value):
        return min(MAX, value + max(100, self.step)) if value < MAX else None

    def platform_limit(self, value):
        return "too hot" if self.shown and self.platform < MAX and value == self.read() else ""


@pytest.fixture
def journal(tmp_path):
    with Journal.open(tmp_path) as journal:
        yield journal


@pytest.fixture
def writer(journal):
    return JournaledWriter(journal)


def throttled(writer, **machine):
    policy = Policy(**machine)
    assert writer.set(policy, 1500) == WrittenKnob(1500, changed=True)
    return policy


@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize("platform", [1200, 2000])
def test_the_users_request_is_restored_whatever_limit_the_platform_has_by_then(platform, shown, writer):
    policy = throttled(writer, user=3500)
    policy.platform, policy.shown = platform, shown
    (answer,) = writer.restore([policy])
    assert answer.outcome is RestoreOutcome.RESTORED
    assert policy.user == 3500
    assert f"reads {platform}" in answer.message
    assert writer.managed == frozenset()


@pytest.mark.parametrize("shown", [True, False])
def test_a_platform_limit_during_a_throttle_is_not_taken_for_a_request(shown, writer):
    policy = throttled(writer, user=3500)
    policy.platform, policy.shown = 1200, shown
    assert writer.set(policy, 1500) == WrittenKnob(1200, changed=False)
    assert writer.managed == {KEY}
    assert writer.overwritten == {}
    policy.platform = MAX
    assert writer.set(policy, 1500) == WrittenKnob(1500, changed=False)
    assert writer.restore([policy]) == [RestoredKnob(KEY, RestoreOutcome.RESTORED, 3500)]


def test_an_explained_reading_is_not_tested_at_each_reading(writer):
    policy = throttled(writer)
    policy.platform = 1200
    for _ in range(3):
        writer.set(policy, 1500)
    assert policy.writes == [1500, 1500]


def test_a_lower_external_request_stays_in_force_during_a_throttle(writer):
    policy = throttled(writer)
    policy.user = 1200
    assert writer.set(policy, 1500) == WrittenKnob(1200, changed=True, external=True)
    assert policy.user == 1200
    written = list(policy.writes)
    assert writer.set(policy, 1500) == WrittenKnob(1200, changed=False, external=True)
    assert policy.writes == written, "it is not tested again"


@pytest.mark.parametrize("between", [[], [1500], [1500, 1500], [1500, 1700]], ids=str)
def test_a_throttle_that_another_tool_saves_and_writes_back_is_restored(between, writer):
    policy = throttled(writer, user=3500)
    saved, policy.user = policy.user, 1200
    for limit in between:
        assert writer.set(policy, limit).external
    policy.user = saved
    assert writer.restore([policy]) == [RestoredKnob(KEY, RestoreOutcome.RESTORED, 3500)]
    assert policy.user == 3500


@pytest.mark.parametrize("shown", [True, False])
def test_a_throttle_that_is_written_back_below_a_platform_limit_is_restored(shown, writer):
    policy = throttled(writer, user=3500)
    policy.user = 1200
    writer.set(policy, 1500)
    policy.user, policy.platform, policy.shown = 1500, 1300, shown
    writer.restore([policy])
    assert policy.user == 3500


@pytest.mark.parametrize("shown", [True, False])
def test_a_lower_external_request_that_stands_survives_a_platform_limit(shown, writer):
    policy = throttled(writer, user=3500)
    policy.user = 1200
    writer.set(policy, 1500)
    policy.platform, policy.shown = 1000, shown
    assert writer.set(policy, 1500).value == 1000
    assert policy.user == 1200
    writer.restore([policy])
    assert policy.user == 1200


def test_a_lower_external_request_that_is_raised_stays_in_force(writer):
    policy = throttled(writer, user=3500)
    for user in (1200, 1300):
        policy.user = user
        assert writer.set(policy, 1500) == WrittenKnob(user, changed=True, external=True)
    assert writer.restore([policy]) == [RestoredKnob(KEY, RestoreOutcome.KEPT_EXTERNAL, 1300)]
    assert policy.user == 1300


def test_an_external_request_below_a_platform_limit_is_distinguished_from_it(writer):
    policy = throttled(writer)
    policy.user, policy.platform = 1000, 1200
    assert writer.set(policy, 1500).external
    assert policy.user == 1000


def test_a_lower_external_request_is_kept_at_restore(writer):
    policy = throttled(writer)
    policy.user = 1200
    assert writer.restore([policy]) == [RestoredKnob(KEY, RestoreOutcome.KEPT_EXTERNAL, 1200)]
    assert policy.user == 1200
    assert writer.managed == frozenset()


def test_a_higher_external_request_is_overwritten_and_restored(writer):
    policy = throttled(writer)
    policy.user = 2500
    assert writer.set(policy, 1500) == WrittenKnob(1500, changed=True, overwrote=2500)
    assert writer.restore([policy]) == [RestoredKnob(KEY, RestoreOutcome.RESTORED, 2500)]


def test_a_higher_external_request_is_kept_at_restore(writer):
    policy = throttled(writer)
    policy.user = 2500
    assert writer.restore([policy]) == [RestoredKnob(KEY, RestoreOutcome.KEPT_EXTERNAL, 2500)]
    assert policy.writes == [1500]


def test_a_policy_that_returned_with_defaults_is_throttled_again(writer):
    policy = throttled(writer)
    policy.user = MAX
    assert writer.set(policy, 1500).value == 1500
    assert writer.restore([policy]) == [RestoredKnob(KEY, RestoreOutcome.RESTORED, MAX)]


def test_a_request_that_the_platform_hides_at_the_first_write_is_taken_for_the_default(writer):
    policy = Policy(platform=2000)
    assert writer.original(policy) == MAX
    writer.set(policy, 1500)
    policy.platform = MAX
    assert writer.restore([policy]) == [RestoredKnob(KEY, RestoreOutcome.RESTORED, MAX)]


def test_a_platform_limit_at_the_first_write_is_not_taken_for_a_request(writer):
    policy = Policy(platform=1200)
    assert writer.set(policy, 1500) == WrittenKnob(1200, changed=True)
    policy.platform = MAX
    assert policy.read() == 1500
    writer.restore([policy])
    assert policy.user == MAX


def test_a_platform_limit_that_shows_nowhere_is_not_taken_for_a_request_at_the_first_write(writer):
    policy = Policy(platform=2000, shown=False)
    assert writer.set(policy, 1500) == WrittenKnob(1500, changed=True)
    assert policy.writes == [2100, 1500]
    policy.platform = MAX
    assert writer.restore([policy]) == [RestoredKnob(KEY, RestoreOutcome.RESTORED, MAX)]


def test_a_users_request_that_nothing_else_limits_is_restored(writer):
    policy = Policy(user=2000)
    assert writer.set(policy, 1500) == WrittenKnob(1500, changed=True)
    assert writer.restore([policy]) == [RestoredKnob(KEY, RestoreOutcome.RESTORED, 2000)]


def test_the_highest_request_needs_no_test(writer):
    assert throttled(writer).writes == [1500]


def test_a_test_of_the_first_reading_that_fails_keeps_no_knob_in_the_journal(writer):
    class Refusing(Policy):
        def write(self, value):
            return HardwareFailure(Reason.NOT_PERMITTED, "read-only")

    policy = Refusing(user=2000)
    assert writer.set(policy, 1500).reason is Reason.NOT_PERMITTED
    assert writer.managed == frozenset()


def test_a_lower_external_request_stays_at_the_first_write(writer):
    policy = Policy(user=1200)
    assert writer.set(policy, 1500) == WrittenKnob(1200, changed=False, external=True)
    assert policy.writes == []


def test_a_driver_that_rounds_is_no_platform_limit_and_no_external_request(writer):
    policy = Policy(step=400)
    assert writer.set(policy, 1500) == WrittenKnob(1200, changed=True)
    assert writer.set(policy, 1500) == WrittenKnob(1200, changed=False)
    policy.user = 800
    assert writer.set(policy, 1500) == WrittenKnob(800, changed=True, external=True)
    assert policy.user == 800


def test_a_driver_that_rounds_is_restored_with_what_it_reads(writer):
    policy = Policy(step=400, user=3300)
    writer.set(policy, 1500)
    (answer,) = writer.restore([policy])
    assert (answer.outcome, policy.user) == (RestoreOutcome.RESTORED, 3200)  # what could be read of it


def test_a_reading_that_does_not_move_and_that_nothing_explains_is_refused(writer):
    policy = throttled(writer)
    policy.frozen = True
    (answer,) = writer.restore([policy])
    assert (answer.outcome, answer.reason, answer.value) == (RestoreOutcome.FAILED, Reason.FIRMWARE_LOCKED, 1500)
    assert writer.managed == {KEY}
    policy.frozen = False
    assert writer.restore([policy]) == [RestoredKnob(KEY, RestoreOutcome.RESTORED, MAX)]


def test_a_reading_that_does_not_move_because_of_a_platform_limit_at_ours_is_restored(writer):
    policy = throttled(writer)
    policy.platform = 1500
    (answer,) = writer.restore([policy])
    assert (answer.outcome, answer.message) == (RestoreOutcome.RESTORED, "wrote 3900 MHz, reads 1500: too hot")
    assert policy.user == MAX


def test_an_offline_policy_stays_in_the_journal(writer):
    policy = throttled(writer)
    policy.offline = True
    assert writer.restore([policy])[0].outcome is RestoreOutcome.FAILED
    policy.offline = False
    assert writer.restore([policy]) == [RestoredKnob(KEY, RestoreOutcome.RESTORED, MAX)]


@pytest.mark.parametrize("shown", [True, False])
def test_a_full_disk_does_not_keep_a_request_from_being_restored(shown, writer, monkeypatch):
    policy = throttled(writer, user=3500)
    policy.platform, policy.shown = 1200, shown
    monkeypatch.setattr(Journal, "change", _full)
    assert writer.restore([policy])[0].outcome is RestoreOutcome.RESTORED
    assert policy.user == 3500


def test_a_platform_limit_that_changes_during_a_probe_is_read_again(writer):
    throttled(writer, user=3500)
    readings = iter([1200, 1300, 1300])

    class Moving(Policy):
        def read(self):
            self.platform = next(readings, 1300)
            return super().read()

    moving = Moving(user=1500, shown=False)
    assert writer.set(moving, 1500) == WrittenKnob(1300, changed=False)
    writer.restore([moving])
    assert moving.user == 3500


def test_a_request_whose_reading_changes_all_the_time_fails(writer):
    throttled(writer)
    falling = iter(range(1400, 800, -10))

    class Falling(Policy):
        def read(self):
            return next(falling)

    (answer,) = writer.restore([Falling(user=1500, shown=False)])
    assert (answer.outcome, answer.reason) == (RestoreOutcome.FAILED, Reason.IO_ERROR)


def test_a_refused_write_under_a_platform_limit_is_not_taken_for_one_that_did_nothing(writer):
    class Lying(Policy):
        def write(self, value):
            super().write(value)
            return HardwareFailure(Reason.IO_ERROR, "read-back failed")

    policy = Lying(platform=1200)
    assert isinstance(writer.set(policy, 1500), HardwareFailure)
    assert writer.managed == {KEY}


def _full(_journal, _changes):
    raise JournalError("disk full")
