"""The samples of one node: when one is due, and what stands beside it in the status, by a virtual clock."""

import json
from dataclasses import dataclass, field

import pytest
import structlog

from joulie_agent.budgets.follow import BudgetFollower, BudgetSources
from joulie_api.errors import TransportError
from joulie_api.wire import Versioned, decode_kind
from joulie_core.budget.in_force import LimitState, NodeLimitReport
from joulie_core.kinds.node_power_budget import NodePowerBudget
from joulie_core.names import NodeName
from joulie_testing.api import make_node_power_budget

IN_FORCE = NodeLimitReport(LimitState.AS_ASKED, in_force_mw=900_000)
HELD = {"fallbackWatts": 700, "sampleSeconds": 5, "holdSeconds": 10}


@dataclass
class Bench:
    """One node, its object as the API server has it, and what was written."""

    found: Versioned[NodePowerBudget] | None = None
    written: list = field(default_factory=list)
    refuses: bool = False

    def __post_init__(self):
        sources = BudgetSources(lambda _node: self.found, self._publish, lambda: 1_000.0)
        self.follower = BudgetFollower(NodeName("n1"), sources, structlog.get_logger())

    def put(self, uid="o1", **spec):
        body = make_node_power_budget("n1", limit_watts=900, **{"oversubscription": HELD} | spec)
        body["metadata"] |= {"uid": uid, "resourceVersion": "1", "generation": 1}
        self.found = decode_kind(NodePowerBudget)(json.dumps(body).encode())

    async def _publish(self, _node, status, _live):
        if self.refuses:
            raise TransportError("no answer")
        self.written.append(status)

    async def pass_at(self, now_s, drawn_mw=500_000):
        """Run a pass; return whether it took a sample."""
        self.follower.follow(now_s)
        samples = self.follower.samples(now_s)
        if samples:
            self.follower.sampled(now_s, drawn_mw)
        await self.follower.report(IN_FORCE)
        return samples

    def told(self):
        status = self.written[-1]
        return status.renewal, status.oversubscription and status.oversubscription.sample


@pytest.fixture
def bench():
    made = Bench()
    made.put()
    return made


async def test_a_sample_is_due_at_once_and_then_once_in_its_time(bench):
    taken = [now_s for now_s in (0.0, 0.2, 4.4, 4.6, 5.0, 9.0, 9.2, 14.2) if await bench.pass_at(now_s)]
    assert taken == [0.0, 4.6, 9.2, 14.2]
    assert bench.follower.due_s(100.0, 14.3) == 19.2


async def test_a_pass_that_fails_does_not_make_the_next_one_due_at_once(bench):
    bench.follower.follow(0.0)
    assert bench.follower.samples(0.0)  # and nothing comes of it
    assert bench.follower.due_s(100.0, 0.1) == 5.0


async def test_the_regular_pass_and_the_end_of_a_lease_come_first(bench):
    await bench.pass_at(0.0)
    assert bench.follower.due_s(3.0, 0.1) == 3.0
    bench.put(leaseSeconds=2, onLostControl="Release")
    await bench.pass_at(1.0)
    assert bench.follower.due_s(100.0, 1.1) == 2.0
    assert bench.follower.due_s(100.0, 2.0) == 5.0, "the lease has ended"


async def test_without_oversubscription_there_are_no_samples(bench):
    bench.put(oversubscription=None)
    assert not await bench.pass_at(0.0)
    assert bench.told() == (1, None)
    assert bench.follower.due_s(100.0, 0.1) == 100.0


async def test_a_renewal_is_told_with_the_sample_that_was_taken_after_it(bench):
    await bench.pass_at(0.0)
    first = bench.told()[1]
    bench.put(renewal=2)
    await bench.pass_at(1.0)
    assert bench.told() == (1, first), "that sample was taken before"
    await bench.pass_at(5.0)
    assert bench.told() == (2, first + 1)


async def test_a_sample_whose_status_was_not_written_is_told_later_with_its_own_renewal(bench):
    bench.refuses = True
    await bench.pass_at(0.0)
    bench.refuses = False
    bench.put(renewal=7)
    await bench.pass_at(1.0)
    assert bench.told()[0] == 1


async def test_another_object_begins_with_a_sample_of_its_own(bench):
    await bench.pass_at(0.0)
    first = bench.told()[1]
    bench.put(uid="o2", renewal=3)
    assert await bench.pass_at(1.0)
    assert bench.told() == (3, first + 1)
    bench.found = None
    assert not await bench.pass_at(2.0)
    bench.put(uid="o2", renewal=4)
    assert await bench.pass_at(3.0)
    assert bench.told() == (4, first + 2)


async def test_what_is_in_force_takes_over_only_the_sample_of_its_own_ask(bench):
    await bench.pass_at(0.0)
    first = bench.told()[1]
    limit = bench.follower.follow(0.0)
    assert limit.falls_back(0.0)
    bench.put(oversubscription=HELD | {"sample": first})
    assert not bench.follower.renamed(limit).falls_back(9.9)
    assert bench.follower.renamed(limit).falls_back(10.0)
    for other in ({"sequence": 2}, {"nodeUID": "u2"}, {"uid": "o2"}):
        bench.put(**{"oversubscription": HELD | {"sample": first}} | other)
        assert bench.follower.renamed(limit) is limit
    bench.found = None
    assert bench.follower.renamed(limit) is limit


def test_two_agents_do_not_begin_with_the_same_number():
    numbers = {Bench().follower._samples.next_number for _ in range(8)}
    assert len(numbers) == 8
