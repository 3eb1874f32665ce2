import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.kinds.node_bmc import BmcCap, BmcCapStatus, LimitException, PowerLimitUnit
from joulie_outofband.bmc import PowerLimit
from joulie_outofband.caps import CapAction, confirmed, decide_cap, has_ended, in_force, is_cap, is_untouched
from joulie_outofband.reasons import BmcReason

END_S = 2_000_000_000
END = "2033-05-18T03:33:20Z"
NONE = BmcCapStatus()


def cap(watts=300.0):
    return BmcCap(watts=watts, expires_at=END)


def decide(requested, entry=NONE, watts=None, *, exception=None, now_s=END_S - 60, **limit):
    return decide_cap(requested, entry, PowerLimit(watts, **limit), exception, now_s=now_s)


def capped(watts=300.0, original=500.0):
    decision = decide(cap(watts), watts=original)
    assert decision.action is CapAction.SET
    return confirmed(decision.entry, watts)


def test_the_limit_that_was_found_is_the_original():
    decision = decide(cap(), watts=500)
    assert (decision.action, decision.entry.requested_watts, decision.entry.original_watts) == (CapAction.SET, 300, 500)


def test_no_limit_is_an_original_too():
    assert decide(cap()).entry.original_watts is None
    restored = decide(None, capped(original=None), 300)
    assert (restored.action, restored.entry.original_watts) == (CapAction.RESTORE, None)


def test_a_cap_that_was_read_back_is_in_force_and_not_written_again():
    decision = decide(cap(), capped(), 300)
    assert (decision.action, decision.finding.reason) == (CapAction.NOTHING, BmcReason.IN_FORCE)


def test_a_cap_that_the_bmc_rounded_is_its_own():
    entry = confirmed(decide(cap(300.6), watts=500).entry, 297.0)
    assert decide(cap(300.6), entry, 297).action is CapAction.NOTHING
    assert decide(None, entry, 297).action is CapAction.RESTORE


def test_a_cap_that_is_read_later_than_after_its_write_is_in_force():
    entry = confirmed(decide(cap(), watts=500).entry, 500)
    decision = decide(cap(), entry, 300.4)
    assert (decision.action, decision.finding.reason) == (CapAction.NOTHING, BmcReason.IN_FORCE)
    assert decision.entry == confirmed(entry, 300.4)


def test_a_value_that_the_bmc_rounded_to_stays_the_one_that_was_read_back():
    entry = confirmed(decide(cap(), watts=500).entry, 320)
    decision = decide(cap(), entry, 320.9)
    assert (decision.action, decision.finding.message) == (CapAction.NOTHING, "300 W written, 320 W read")
    assert (decision.entry.watts, decision.entry.confirmed_watts) == (320.9, 320)


def test_a_write_without_a_known_result_is_repeated():
    entry = decide(cap(), watts=500).entry
    for read in (500, 300, None):
        decision = decide(cap(), entry, read)
        assert (decision.action, decision.entry.original_watts) == (CapAction.SET, 500)
        assert decide(None, entry, read).action is CapAction.RESTORE


@pytest.mark.parametrize("read", [None, 500.0])
def test_a_cap_is_written_again_where_a_higher_external_limit_replaced_it(read):
    decision = decide(cap(), capped(original=450), read)
    assert (decision.action, decision.entry.original_watts) == (CapAction.SET, read)


def test_a_lower_external_limit_stays_and_is_not_restored_over():
    decision = decide(cap(), capped(), 250)
    assert (decision.action, decision.finding.reason) == (CapAction.NOTHING, BmcReason.LOWER_EXTERNAL_LIMIT)
    assert decision.entry == BmcCapStatus(watts=250)
    assert decide(None, capped(), 250).action is CapAction.NOTHING


def test_a_cap_that_rises_above_the_original_restores_it():
    decision = decide(cap(600), capped(), 300)
    assert (decision.action, decision.finding.reason) == (CapAction.RESTORE, BmcReason.LOWER_EXTERNAL_LIMIT)


def test_another_cap_keeps_the_original():
    decision = decide(cap(350), capped(), 300)
    assert (decision.action, decision.entry.original_watts) == (CapAction.SET, 500)


def test_a_cap_ends_at_its_time():
    assert decide(cap(), capped(), 300, now_s=END_S - 1).action is CapAction.NOTHING
    ended = decide(cap(), capped(), 300, now_s=END_S)
    assert (ended.action, ended.finding.reason) == (CapAction.RESTORE, BmcReason.EXPIRED)


def test_a_cap_whose_end_cannot_be_read_is_not_set():
    requested = BmcCap(watts=300, expires_at="soon")
    assert decide(requested).finding.reason is BmcReason.EXPIRY_UNREADABLE


@pytest.mark.parametrize("exception", [LimitException.HARD_POWER_OFF, LimitException.OTHER])
def test_a_cap_that_may_cut_the_power_is_refused_and_ends(exception):
    assert decide(cap(), watts=500, exception=exception).finding.reason is BmcReason.HARD_POWER_OFF
    assert decide(cap(), watts=500, exception=exception).action is CapAction.NOTHING
    assert decide(cap(), capped(), 300, exception=exception).action is CapAction.RESTORE


@pytest.mark.parametrize("exception", [None, LimitException.NO_ACTION, LimitException.LOG_EVENT_ONLY])
def test_a_harmless_limit_exception_is_accepted(exception):
    assert decide(cap(), watts=500, exception=exception).action is CapAction.SET


def test_a_limit_in_percent_is_not_written():
    decision = decide(cap(), unit=PowerLimitUnit.PERCENT)
    assert (decision.action, decision.finding.reason) == (CapAction.NOTHING, BmcReason.NOT_IN_WATTS)


@pytest.mark.parametrize("watts", [199, 801])
def test_a_cap_out_of_range_is_refused(watts):
    assert decide(cap(watts), min_watts=200, max_watts=800).finding.reason is BmcReason.OUT_OF_RANGE


def test_a_cap_that_is_not_read_back_is_reported():
    entry = confirmed(decide(cap(), watts=500).entry, 500)
    assert in_force(entry).reason is BmcReason.NOT_READ_BACK


LIMITS = st.none() | st.floats(100, 1000)


class Bmc:
    """A BMC's limit, under the decisions of the service and the writes of others."""

    def __init__(self, watts):
        self.watts = watts
        self.external = watts
        self.entry = NONE

    def step(self, requested, now_s):
        decision = decide_cap(requested, self.entry, PowerLimit(self.watts), None, now_s=now_s)
        self.entry = decision.entry
        if decision.action is CapAction.SET:
            self.watts = decision.entry.requested_watts
            self.entry = confirmed(decision.entry, self.watts)
        elif decision.action is CapAction.RESTORE:
            self.watts = decision.entry.original_watts
            self.entry = BmcCapStatus(watts=self.watts)


@given(st.lists(st.tuples(st.sampled_from(["cap", "end", "write", "pass"]), LIMITS), max_size=12), LIMITS)
def test_after_the_end_the_newest_external_limit_is_in_force_and_no_cap_was_ever_above_it(steps, found):
    bmc, requested = Bmc(found), None
    for kind, watts in steps:
        if kind == "cap" and watts is not None:
            requested = cap(watts)
        elif kind == "end":
            requested = None
        elif kind == "write" and (bmc.entry.requested_watts is None or abs((watts or 0) - bmc.watts) >= 1):
            # A value equal to the cap cannot be told from it.
            bmc.watts = bmc.external = watts
        bmc.step(requested, END_S - 1)
        wanted = [each for each in (bmc.external, requested and requested.watts) if each is not None]
        assert bmc.watts == min(wanted, default=None)
    bmc.step(None, END_S)
    assert bmc.watts == bmc.external


def shown(finding):
    return finding.status.value, finding.reason, finding.message


def test_every_decision_says_why():
    unreadable = BmcCap(watts=300, expires_at="soon")
    findings = [
        (decide(None).finding, ("False", BmcReason.NO_CAP, "")),
        (decide(cap(), watts=500).finding, ("Unknown", BmcReason.NOT_READ_BACK, "")),
        (decide(cap(), capped(), 300).finding, ("True", BmcReason.IN_FORCE, "300 W in force")),
        (
            decide(cap(), watts=250).finding,
            ("True", BmcReason.LOWER_EXTERNAL_LIMIT, "limit of 250 W is not above the cap"),
        ),
        (decide(unreadable).finding, ("False", BmcReason.EXPIRY_UNREADABLE, "expiresAt soon")),
        (decide(cap(), now_s=END_S).finding, ("False", BmcReason.EXPIRED, f"expired at {END}")),
        (
            decide(cap(), unit=PowerLimitUnit.PERCENT).finding,
            ("False", BmcReason.NOT_IN_WATTS, "the limit is in %"),
        ),
        (
            decide(cap(), exception=LimitException.HARD_POWER_OFF).finding,
            ("False", BmcReason.HARD_POWER_OFF, "limit exception HardPowerOff; set LogEventOnly at the BMC"),
        ),
        (
            decide(cap(150), min_watts=200, max_watts=800).finding,
            ("False", BmcReason.OUT_OF_RANGE, "150 W; allowed: 200 W to 800 W"),
        ),
        (
            in_force(confirmed(decide(cap(), watts=500).entry, 500)),
            ("False", BmcReason.NOT_READ_BACK, "300 W written, 500 W read"),
        ),
        (
            in_force(confirmed(decide(cap(), watts=500).entry, None)),
            ("False", BmcReason.NOT_READ_BACK, "300 W written, no limit read"),
        ),
        (
            in_force(BmcCapStatus(confirmed_watts=300)),
            ("False", BmcReason.NOT_READ_BACK, "no limit written, 300 W read"),
        ),
    ]
    for finding, expected in findings:
        assert shown(finding) == expected


@pytest.mark.parametrize(
    ("watts", "limits"),
    [(200, {"min_watts": 200}), (800, {"max_watts": 800}), (1.0, {}), (100_000, {}), (65535, {"max_watts": 65535})],
)
def test_a_cap_at_the_edge_of_its_range_is_set(watts, limits):
    assert decide(cap(watts), **limits).action is CapAction.SET


@pytest.mark.parametrize("watts", [0.99, 100_001, 1e308])
def test_a_cap_that_no_server_can_have_is_out_of_range(watts):
    assert decide(cap(watts)).finding.reason is BmcReason.OUT_OF_RANGE


def test_a_limit_that_equals_the_cap_is_not_a_cap():
    decision = decide(cap(300), watts=300)
    assert (decision.action, decision.finding.reason) == (CapAction.NOTHING, BmcReason.LOWER_EXTERNAL_LIMIT)


def test_the_limit_that_was_read_is_in_every_entry_and_the_owner_is_named():
    for decision in (decide(cap(), capped(), 300.4), decide(None, capped(), 300.4), decide(cap(), capped(), 700)):
        assert decision.entry.watts in {300.4, 700}
    requested = decide(cap(), watts=500).entry
    assert (requested.watts, requested.owner.value) == (500, "Joulie")
    assert (confirmed(requested, 299).watts, decide(None, watts=500).entry.owner.value) == (299, "External")


@pytest.mark.parametrize(("read", "own"), [(300.9, True), (301.0, False), (299.1, True), (299.0, False)])
def test_a_limit_is_the_caps_within_a_watt(read, own):
    assert is_cap(BmcCapStatus(requested_watts=300), read) is own


@pytest.mark.parametrize(
    ("original", "read", "untouched"),
    [
        (700, 700, True),
        (700, 699.1, True),
        (700, 699, False),
        (700, 300, False),
        (700, None, False),
        (None, None, True),
        (None, 300, False),
        (300.9, 300.4, False),
    ],
)
def test_a_bmc_is_untouched_where_it_reads_the_original_and_not_the_cap(original, read, untouched):
    assert is_untouched(BmcCapStatus(requested_watts=300, original_watts=original), read) is untouched


def test_a_limit_that_reads_a_watt_above_the_cap_is_not_in_force():
    entry = BmcCapStatus(requested_watts=300, confirmed_watts=301)
    assert in_force(entry).reason is BmcReason.NOT_READ_BACK
    assert in_force(entry.model_copy(update={"confirmed_watts": 300.9})).reason is BmcReason.IN_FORCE


def test_a_cap_has_ended_at_its_time_or_where_its_time_cannot_be_read():
    assert not has_ended(cap(), END_S - 1)
    assert has_ended(cap(), END_S)
    assert has_ended(BmcCap(watts=300, expires_at="soon"), 0)
