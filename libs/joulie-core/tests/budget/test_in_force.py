"""What is in force of a limit, from what was read back."""

from dataclasses import replace

import pytest

from joulie_core.budget.device_caps import GpuGroup, LimitedDevices, caps_of_levels, caps_of_limit
from joulie_core.budget.in_force import NO_DEVICES, HeldPower, judge_limit
from joulie_core.budget.ledger import LimitAsk
from joulie_core.budget.limit_hold import LimitHold
from joulie_core.budget.node_limit import CapLevels, FollowedLimit
from joulie_core.control.caps_resolve import WattRange

DEVICES = LimitedDevices(2, WattRange(250, 100), (GpuGroup("", WattRange(400, 100), 4),))
LIMIT = FollowedLimit(
    object_uid="o",
    node_uid="u",
    boot_id="b",
    ask=LimitAsk("u/b", 1, 3, 900_000, None),
    levels=None,
    keeps=True,
    lease_s=60.0,
    renewal=1,
    renewed_s=0.0,
)
CAPS = caps_of_limit(900_000, DEVICES)


CPU, GPU = HeldPower(300_000), HeldPower(600_000)


def judge(limit=LIMIT, devices=DEVICES, caps=CAPS, *, cpu=CPU, gpu=GPU, now_s=1.0, full_mw=None):
    return judge_limit(limit, devices, caps, cpu=cpu, gpu=gpu, now_s=now_s, full_mw=full_mw)


def asking(limit_mw):
    return replace(LIMIT, ask=replace(LIMIT.ask, limit_mw=limit_mw))


def test_a_limit_that_every_device_holds_is_in_force_as_asked():
    report = judge()
    assert (report.state, report.in_force_mw, report.caps) == ("AsAsked", 900_000, CAPS)
    assert (report.refused, report.as_asked, report.message) == (False, True, "")


def test_what_a_profile_lowers_further_is_told_as_read():
    assert judge(cpu=HeldPower(200_000)).in_force_mw == 800_000


@pytest.mark.parametrize(
    ("cpu", "gpu", "message"),
    [
        (HeldPower(None, "CPU: held by a loop"), HeldPower(1), "CPU: held by a loop"),
        (HeldPower(1), HeldPower(None, "GPU: gone"), "GPU: gone"),
        (HeldPower(None, "CPU: a"), HeldPower(None), "CPU: a; not read back"),
    ],
)
def test_a_subsystem_that_was_not_read_back_leaves_the_limit_refused(cpu, gpu, message):
    report = judge(cpu=cpu, gpu=gpu)
    assert (report.state, report.refused, report.as_asked) == ("NotHeld", True, False)
    assert (report.in_force_mw, report.message) == (None, message)


def test_a_limit_that_could_not_be_split_is_refused_with_the_reason():
    report = judge(devices=replace(DEVICES, problem="a GPU has no limit"), caps=None)
    assert (report.state, report.refused, report.in_force_mw) == ("DevicesUnknown", True, None)
    assert report.message == "a GPU has no limit"
    unknown = judge(devices=LimitedDevices(1, WattRange(), (GpuGroup("a", WattRange(2, 1)),)), caps=None)
    assert unknown.message == "the range of a limit of 1 CPU package and 1 GPU is not known"


def test_a_limit_below_the_hardware_is_refused_with_both_numbers_and_what_is_in_force():
    caps = caps_of_limit(450_000, DEVICES)
    report = judge(asking(450_000), caps=caps, cpu=HeldPower(200_000), gpu=HeldPower(400_000))
    assert (report.state, report.refused, report.in_force_mw) == ("BelowMinimum", True, 600_000)
    assert report.message == (
        "450 W asked; the lowest limits of 2 CPU packages and 4 GPUs are 600 W together, and are set"
    )


def test_firmware_that_holds_more_is_not_refused_and_not_as_asked():
    report = judge(cpu=HeldPower(300_001))
    assert (report.state, report.refused, report.as_asked) == ("HeldHigher", False, False)
    assert (report.in_force_mw, report.message) == (900_001, "900 W asked, and 900.001 W read back")


def test_a_kept_limit_stays_in_force_and_a_released_one_is_not():
    kept = judge(now_s=60.0)
    assert (kept.state, kept.as_asked, kept.in_force_mw) == ("KeptWithoutRenewal", True, 900_000)
    released = judge(replace(LIMIT, keeps=False), caps=None, now_s=60.0)
    assert (released.state, released.as_asked, released.refused) == ("LeaseEnded", False, False)
    assert released.in_force_mw is None
    assert judge(replace(LIMIT, keeps=False), now_s=59.9).state == "AsAsked"


def test_no_limit_is_in_force_as_asked_and_has_no_watts():
    report = judge(asking(None), caps=None, now_s=999.0)
    assert (report.state, report.as_asked, report.in_force_mw, report.refused) == ("NoLimit", True, None, False)


def test_an_older_ask_leaves_the_later_one_in_force():
    report = judge(replace(LIMIT, older=2))
    assert (report.state, report.as_asked, report.refused, report.in_force_mw) == ("OlderAsk", False, False, 900_000)
    assert report.message == "sequence 2 is asked after 3 was applied; the latter stays"
    held = judge(replace(LIMIT, older=2), cpu=HeldPower(None))
    assert held.state == "NotHeld", "what is wrong with the limit itself is told first"
    assert judge(replace(asking(None), older=2), caps=None).state == "OlderAsk"


def test_stored_levels_are_judged_by_their_sum():
    limit = replace(asking(None), levels=CapLevels(150_000, 150_000))
    caps = caps_of_levels(150_000, 150_000, DEVICES)
    assert judge(limit, caps=caps).state == "AsAsked"
    assert judge(limit, caps=caps, gpu=HeldPower(600_001)).state == "HeldHigher"


def test_a_node_without_gpus_is_its_packages():
    devices = LimitedDevices(2, WattRange(250, 100))
    report = judge(asking(300_000), devices, caps_of_limit(300_000, devices), gpu=NO_DEVICES)
    assert (report.state, report.in_force_mw) == ("AsAsked", 300_000)


FALLBACK_CAPS = caps_of_limit(700_000, DEVICES)
LOWERED = {"caps": FALLBACK_CAPS, "cpu": HeldPower(233_332), "gpu": HeldPower(466_668)}


def held_by(taken_s, fallback_mw=700_000):
    return replace(LIMIT, hold=LimitHold(fallback_mw, 5.0, 10.0, taken_s))


def test_a_fallback_in_force_is_told_with_both_numbers_and_counts_as_the_limit():
    report = judge(held_by(None), **LOWERED, full_mw=895_000)
    assert (report.state, report.falls_back, report.as_asked, report.refused) == ("FallingBack", True, False, False)
    assert (report.in_force_mw, report.caps) == (895_000, FALLBACK_CAPS)
    assert report.message == "no fresh sample is named: 700 W in the place of 900 W"


def test_a_fresh_sample_leaves_the_limit_as_asked_until_its_hold_has_passed():
    limit = held_by(5.0)
    assert judge(limit, now_s=14.9).state == "AsAsked"
    assert not judge(limit, now_s=14.9).falls_back
    assert judge(limit, **LOWERED, now_s=15.0, full_mw=900_000).falls_back


def test_what_the_limit_holds_is_unknown_where_it_is_not_known():
    assert judge(held_by(None), **LOWERED).in_force_mw is None


def test_a_fallback_that_the_hardware_holds_higher_is_refused_with_both_numbers():
    report = judge(held_by(None), caps=FALLBACK_CAPS, cpu=HeldPower(240_000), gpu=HeldPower(466_668), full_mw=900_000)
    assert (report.state, report.refused, report.falls_back) == ("FallbackNotHeld", True, False)
    assert (report.in_force_mw, report.message) == (
        900_000,
        "700 W are to be held without a fresh sample, and 706.668 W were read back",
    )
    higher = judge(held_by(None), caps=FALLBACK_CAPS, cpu=HeldPower(500_000), gpu=HeldPower(500_000), full_mw=900_000)
    assert higher.in_force_mw == 1_000_000


def test_a_fallback_below_the_hardware_is_refused_with_both_numbers():
    caps = caps_of_limit(500_000, DEVICES)
    report = judge(held_by(None, 500_000), caps=caps, cpu=HeldPower(200_000), gpu=HeldPower(400_000), full_mw=900_000)
    assert (report.state, report.in_force_mw) == ("FallbackNotHeld", 900_000)
    assert report.message == (
        "500 W are to be held without a fresh sample; the lowest limits of 2 CPU packages and 4 GPUs are 600 W "
        "together, and are set"
    )


def test_a_fallback_that_a_device_does_not_confirm_counts_as_nothing_known():
    report = judge(held_by(None), caps=FALLBACK_CAPS, cpu=HeldPower(None, "CPU: locked"), full_mw=900_000)
    assert (report.state, report.refused, report.in_force_mw) == ("FallbackNotHeld", True, None)
    assert report.message == "700 W are to be held without a fresh sample; CPU: locked"
    fresh = judge(held_by(0.0), cpu=HeldPower(None, "CPU: locked"), full_mw=900_000)
    assert (fresh.state, fresh.message) == ("NotHeld", "CPU: locked")


def test_a_fallback_is_kept_or_released_with_its_lease():
    kept = judge(held_by(None), **LOWERED, now_s=60.0, full_mw=900_000)
    assert (kept.state, kept.in_force_mw) == ("FallingBack", 900_000)
    released = judge(replace(held_by(None), keeps=False), caps=None, now_s=60.0)
    assert (released.state, released.in_force_mw) == ("LeaseEnded", None)


def test_the_fallback_of_stored_levels_is_told_without_their_watts():
    limit = replace(held_by(None), ask=replace(LIMIT.ask, limit_mw=None), levels=CapLevels(150_000, 150_000), older=2)
    report = judge(limit, **LOWERED, full_mw=900_000)
    assert (report.state, report.message) == ("FallingBack", "no fresh sample is named: 700 W")


def test_every_state_but_those_that_set_nothing_has_the_caps_and_a_reason_in_words():
    unread = HeldPower(None, "CPU: a")
    low = caps_of_limit(450_000, DEVICES)
    for report, caps, message in (
        (judge(cpu=unread), CAPS, "CPU: a"),
        (judge(held_by(None), caps=FALLBACK_CAPS, cpu=unread), FALLBACK_CAPS, "CPU: a"),
        (judge(asking(450_000), caps=low, cpu=HeldPower(200_000), gpu=HeldPower(400_000)), low, "450 W asked"),
        (judge(cpu=HeldPower(300_001)), CAPS, "read back"),
        (judge(now_s=60.0), CAPS, "no renewal for 60 s; the limit is kept"),
        (judge(replace(LIMIT, older=2)), CAPS, "sequence 2"),
        (judge(replace(LIMIT, keeps=False), caps=None, now_s=60.0), None, "no renewal for 60 s; the limit is lifted"),
    ):
        assert (report.caps, message in report.message) == (caps, True), report
