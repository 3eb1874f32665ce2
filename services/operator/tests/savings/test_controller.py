"""The loop of savings: time that was not seen is unknown, and the ledger outlives the operator."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from joulie_api.errors import Forbidden, NotFound, NotLeader
from joulie_api.savings import LEDGER_KEY, SET_ASIDE_KEY, read_ledger
from joulie_core.savings import EstimateRange, Lever, LeverRate
from joulie_operator.reasons import EventReason
from joulie_operator.savings.controller import INTERVAL_S, SavingsController, SavingsParts

_RATES = {
    Lever.SLEEP: LeverRate(EstimateRange(90.0, 100.0, 110.0)),
    Lever.CAPS: LeverRate(),
    Lever.SCORE: LeverRate(EstimateRange(-30.0, -20.0, 10.0)),
}
START_S = 20_000 * 86_400.0


class World:
    """An operator's surroundings: time, one ConfigMap, watches that may be stale."""

    def __init__(self):
        self.now_s, self.stored, self.stale, self.events = START_S, None, None, []
        self.writes, self.error = 0, None
        self.fails = False

    async def get(self, res, name, namespace):
        assert (res.kind, name, namespace) == ("ConfigMap", "joulie-savings", "joulie-system")
        if self.error is not None:
            raise self.error
        if self.stored is None:
            raise NotFound(404, "NotFound", "no ConfigMap")
        return self.stored

    async def apply(self, res, name, body, *, namespace):
        assert (res.kind, name, namespace) == ("ConfigMap", "joulie-savings", "joulie-system")
        if self.error is not None:
            raise self.error
        self.stored = json.dumps(body).encode()
        self.writes += 1

    async def rates(self, now_s):
        assert now_s == self.now_s
        if self.fails:
            raise RuntimeError("a defect")
        return dict(_RATES)

    def controller(self):
        parts = SavingsParts(
            client=self,
            writer=self,
            estimate=SimpleNamespace(rates=self.rates),
            stale_reason=lambda: self.stale,
            record_event=self.events.append,
            failures=SimpleNamespace(contained=lambda *_args, **_kwargs: nullcontext()),
            wall=lambda: self.now_s,
            namespace="joulie-system",
        )
        return SavingsController(parts)

    async def look(self, controller, after_s=INTERVAL_S):
        self.now_s += after_s
        await controller.look()

    @property
    def ledger(self):
        return read_ledger(self.stored)


async def test_a_rate_counts_from_one_look_to_the_next():
    world = World()
    controller = world.controller()
    await controller.look()
    await world.look(controller)
    # More than three intervals: a gap.
    await world.look(controller, 270.0)
    assert world.ledger.total[Lever.SLEEP].joules == EstimateRange(2_700.0, 3_000.0, 3_300.0)
    assert world.ledger.total[Lever.SLEEP].unknown_s == 270.0
    assert world.ledger.total[Lever.CAPS].unknown_s == 270.0


async def test_nothing_is_known_while_a_watch_may_be_out_of_date():
    world = World()
    controller = world.controller()
    world.stale = "connection lost"
    await controller.look()
    world.stale = None
    await world.look(controller)
    await world.look(controller)
    world.now_s += 300.0
    await controller.look()
    assert world.ledger.total[Lever.SLEEP].joules.middle == 3_000.0
    assert world.ledger.total[Lever.SLEEP].unknown_s == INTERVAL_S + 300.0


async def test_the_ledger_is_written_at_once_and_then_every_five_minutes():
    world = World()
    controller = world.controller()
    await controller.look()
    assert world.writes == 1
    for _ in range(9):
        await world.look(controller)
    assert world.writes == 1
    await world.look(controller)
    assert world.writes == 2


async def test_a_successor_goes_on_with_the_gap_unknown():
    world = World()
    first = world.controller()
    await first.look()
    for _ in range(10):
        await world.look(first)
    world.now_s += 3_600.0
    second = world.controller()
    await second.look()
    assert world.ledger.begun_s == START_S
    assert world.ledger.total[Lever.SLEEP].joules.middle == 100.0 * 300.0
    assert world.ledger.total[Lever.SLEEP].unknown_s == 3_600.0
    # Also a short gap: an operator that begins to lead has seen nothing of it.
    world.now_s += 10.0
    third = world.controller()
    await third.look()
    assert world.ledger.total[Lever.SLEEP].unknown_s == 3_610.0


async def test_a_ledger_that_cannot_be_read_is_set_aside_with_an_event():
    world = World()
    world.stored = json.dumps({"data": {LEDGER_KEY: "broken"}}).encode()
    await world.controller().look()
    assert [event.reason for event in world.events] == [EventReason.SAVINGS_SET_ASIDE]
    assert world.events[0].subject.namespace == "joulie-system"
    assert world.ledger.total == {}
    assert json.loads(world.stored)["data"][SET_ASIDE_KEY] == "broken"
    # It is still there after the next start, which reports nothing.
    await world.controller().look()
    assert json.loads(world.stored)["data"][SET_ASIDE_KEY] == "broken"
    assert len(world.events) == 1


async def test_without_an_answer_nothing_is_counted_and_nothing_overwritten():
    world = World()
    world.stored = b"anything"
    world.error = Forbidden(403, "Forbidden", "no role")
    controller = world.controller()
    await controller.look()
    assert world.stored == b"anything"
    assert controller.rates[Lever.SLEEP].unknown_share == 1.0
    world.error, world.stored = None, None
    await world.look(controller)
    assert world.ledger.total == {}


async def test_a_write_that_fails_is_repeated_at_the_next_look():
    world = World()
    controller = world.controller()
    world.error = NotFound(404, "NotFound", "no ConfigMap")
    await controller.look()
    world.error = None
    await world.look(controller)
    assert world.writes == 1


async def test_an_operator_that_lost_its_lease_ends():
    world = World()
    controller = world.controller()
    await controller.look()
    world.error = NotLeader("lost")
    world.now_s += 300.0
    with pytest.raises(NotLeader):
        await controller.look()


async def test_after_a_defect_of_the_estimate_the_time_is_unknown():
    world = World()
    controller = world.controller()
    await controller.look()
    world.fails = True
    with pytest.raises(RuntimeError):
        await world.look(controller)
    world.fails = False
    await world.look(controller)
    world.now_s += 300.0
    await controller.look()
    assert world.ledger.total[Lever.SLEEP].joules.middle == 100.0 * INTERVAL_S
    assert world.ledger.total[Lever.SLEEP].unknown_s == INTERVAL_S + 300.0


def _samples(controller):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in controller.counters.families(controller.rates)
        for sample in family.samples
    }


async def test_counters_only_rise_and_joules_below_zero_are_spent():
    world = World()
    controller = world.controller()
    await controller.look()
    await world.look(controller)
    samples = _samples(controller)
    assert samples["joulie_saved_watts", "score", "lower"] == -30.0
    assert samples["joulie_saved_joules_total", "sleep", "middle"] == 3_000.0
    assert samples["joulie_spent_joules_total", "sleep", "middle"] == 0.0
    assert samples["joulie_spent_joules_total", "score", "middle"] == 600.0
    assert samples["joulie_saved_joules_total", "score", "upper"] == 300.0
    assert samples["joulie_savings_unknown_seconds_total", "score"] == 0.0


async def test_a_lever_of_which_nothing_is_known_has_no_watts():
    world = World()
    controller = world.controller()
    world.stale = "connection lost"
    await controller.look()
    assert not any(name == "joulie_saved_watts" for name, *_ in _samples(controller))
    await world.look(controller)
    assert _samples(controller)["joulie_savings_unknown_seconds_total", "sleep"] == INTERVAL_S
