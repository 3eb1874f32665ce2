"""What a change of the cluster sets in motion: which nodes are processed, and whether a plan follows."""

import asyncio

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from joulie_api.failures import Failures
from joulie_core.hardware.inventory import Inventory
from joulie_core.names import NodeName
from joulie_operator.cluster import Cluster
from joulie_operator.pods import PodDecoder
from joulie_operator.workqueue import ChangeScope, ClusterChange, PlanTrigger, WorkQueue
from joulie_testing.api import make_pod

NODES = 10
PODS = 100


class FreshWatch:
    def is_stale(self):
        return False


class Burst:
    """Pods that are created, bound and started, and what is processed because of them."""

    def __init__(self, *, follows_demand):
        self.queue = WorkQueue()
        self.trigger = PlanTrigger(self.queue, follows_demand=follows_demand)
        self.cluster = Cluster(
            Inventory.load(),
            pods=FreshWatch(),
            on_change=self.trigger.on_change,
            failures=Failures(CollectorRegistry()),
        )
        self.decode = PodDecoder()
        self.reconciles = 0

    async def play(self, workload_class=None):
        for number in range(PODS):
            node = f"n{number % NODES}"
            old = None
            for where, phase in ((None, "Pending"), (node, "Pending"), (node, "Running")):
                made = make_pod(f"p{number}", node=where, phase=phase, cpu=1, workload_class=workload_class)
                new = self.decode(msgspec.json.encode(made))
                self.cluster.on_pod(f"p{number}", old, new)
                old = new
                await self.process()

    async def process(self):
        while len(self.queue):
            self.queue.done(await self.queue.take())
            self.reconciles += 1

    async def plans(self):
        try:
            async with asyncio.timeout(0):
                await self.trigger.wait()
        except TimeoutError:
            return False
        return True


async def test_a_burst_of_standard_pods_processes_no_node_and_plans_nothing():
    burst = Burst(follows_demand=True)
    await burst.play()
    assert burst.reconciles == 0
    assert not await burst.plans()


async def test_a_burst_of_performance_pods_processes_each_of_their_nodes_once():
    burst = Burst(follows_demand=False)
    await burst.play("performance")
    assert burst.reconciles == NODES


@pytest.mark.parametrize("follows_demand", [False, True])
async def test_performance_pods_make_a_plan_necessary_where_the_policy_follows_demand(follows_demand):
    burst = Burst(follows_demand=follows_demand)
    await burst.play("performance")
    assert await burst.plans() is follows_demand


async def test_a_node_that_changed_is_processed_and_planned_under_every_policy():
    burst = Burst(follows_demand=False)
    burst.trigger.on_change(ClusterChange(ChangeScope.PLAN, NodeName("n1")))
    assert await burst.plans()
    assert burst.trigger.take() == {"n1"}
    await burst.process()
    assert burst.reconciles == 1
