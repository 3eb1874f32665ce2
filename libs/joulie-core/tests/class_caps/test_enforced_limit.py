"""Which clocks are set by the class of the holders, from when on, and why the others are not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.class_caps.enforced_limit import SETTLED_S, EnforcedClocks, EnforcedReason, enforceable
from joulie_core.class_caps.gpu_limits import GpuLimit, LimitReason
from joulie_core.class_caps.held_limit import HeldLimit

CLOCK = GpuLimit(LimitReason.CLOCK_LIMITED, clock_mhz=1800)
POWER = GpuLimit(LimitReason.POWER_LIMITED, cap_watts=200.0)
FREE = GpuLimit(LimitReason.FREE)


def held(limit=CLOCK, *, consents=True, running=True):
    return HeldLimit(limit, consents=consents, running=running)


def settled(found=None, *, clocks=None, now_s=100.0):
    """Return the clocks where the decision has been this one for long enough."""
    found = {"a": held()} if found is None else found
    return (clocks or EnforcedClocks()).after(found, now_s).after(found, now_s + SETTLED_S)


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        (held(), 1800),
        (held(FREE), EnforcedReason.NO_LIMIT),
        (held(POWER), EnforcedReason.ONLY_CLOCKS),
        (held(consents=False), EnforcedReason.NO_CONSENT),
        (held(running=False), EnforcedReason.HOLDER_NOT_RUNNING),
        (held(consents=False, running=False), EnforcedReason.NO_CONSENT),
    ],
)
def test_only_a_clock_of_running_pods_with_consent_is_set(found, answer):
    assert enforceable(found) == answer


def test_a_clock_is_set_after_the_decision_has_been_the_same_for_a_while():
    found = {"a": held()}
    clocks = EnforcedClocks().after(found, 100.0)
    assert (clocks.wanted, clocks.reasons) == ({}, {"a": EnforcedReason.NOT_SETTLED})
    assert clocks.after(found, 100.0 + SETTLED_S - 0.1).wanted == {}
    later = clocks.after(found, 100.0 + SETTLED_S)
    assert (later.wanted, later.reasons) == ({"a": 1800}, {"a": EnforcedReason.SET})


@pytest.mark.parametrize(
    "other",
    [held(FREE), held(POWER), held(consents=False), held(running=False), held(GpuLimit(LimitReason.HOLDER_UNKNOWN))],
)
def test_a_clock_is_not_wanted_at_the_first_other_decision_and_has_to_settle_anew(other):
    clocks = settled().after({"a": other}, 106.0)
    assert (clocks.wanted, clocks.reasons) == ({}, {"a": enforceable(other)})
    assert clocks.after({"a": held()}, 107.0).wanted == {}
    assert clocks.after({"a": held()}, 107.0).after({"a": held()}, 107.0 + SETTLED_S).wanted == {"a": 1800}


def test_another_clock_has_to_settle_anew():
    other = {"a": held(GpuLimit(LimitReason.CLOCK_LIMITED, clock_mhz=1600))}
    assert settled().after(other, 106.0).wanted == {}
    assert settled(other, clocks=settled(), now_s=106.0).wanted == {"a": 1600}


def test_holders_that_are_not_known_want_nothing_and_forget():
    clocks = settled().after(None, 106.0)
    assert (clocks.wanted, clocks.reasons) == ({}, {})
    assert clocks.after({"a": held()}, 107.0).wanted == {}


def test_before_the_first_look_nothing_is_wanted():
    clocks = EnforcedClocks()
    assert (clocks.wanted, clocks.reasons, clocks.candidates) == ({}, {}, {})


def test_a_gpu_that_is_gone_is_not_wanted():
    assert settled().after({}, 106.0).wanted == {}


def test_gpus_of_another_controller_are_not_wanted():
    clocks = settled().after({"a": held(), "b": held(FREE)}, 106.0, controlled=False)
    assert clocks.wanted == {}
    assert clocks.reasons == dict.fromkeys("ab", EnforcedReason.NOT_CONTROLLED)
    assert clocks.after({"a": held()}, 107.0).wanted == {}


def test_one_gpu_does_not_unsettle_another():
    found = {"a": held(), "b": held()}
    assert settled(found).after({"a": held(), "b": held(FREE)}, 106.0).wanted == {"a": 1800}


decisions = st.builds(held, st.sampled_from([CLOCK, POWER, FREE]), consents=st.booleans(), running=st.booleans())
looks = st.one_of(st.none(), st.dictionaries(st.sampled_from("ab"), decisions))


@given(steps=st.lists(st.tuples(looks, st.floats(0.1, 10.0), st.booleans()), max_size=20))
def test_no_sequence_of_looks_wants_a_clock_that_the_last_look_does_not_allow(steps):
    clocks, now_s = EnforcedClocks(), 0.0
    for found, elapsed_s, controlled in steps:
        now_s += elapsed_s
        clocks = clocks.after(found, now_s, controlled=controlled)
        for uuid, mhz in clocks.wanted.items():
            assert controlled
            assert found[uuid].limit.clock_mhz == mhz
            assert found[uuid].consents
            assert found[uuid].running
        assert clocks.reasons.keys() == (found or {}).keys()


def test_a_decision_that_is_held_back_does_not_count_and_has_to_settle_afterwards():
    found = {"a": held(), "b": held()}
    clocks = settled(found).after(found, 106.0, held_back={"a"})
    assert (clocks.wanted, clocks.reasons["a"]) == ({"b": 1800}, EnforcedReason.NOT_SETTLED)
    freed = clocks.after(found, 110.0)
    assert freed.wanted == {"b": 1800}
    assert freed.after(found, 110.0 + SETTLED_S).wanted == {"a": 1800, "b": 1800}


def test_what_is_held_back_keeps_the_reason_why_nothing_is_set():
    clocks = EnforcedClocks().after({"a": held(consents=False)}, 100.0, held_back={"a"})
    assert clocks.reasons == {"a": EnforcedReason.NO_CONSENT}
