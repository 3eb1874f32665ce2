"""The loops of a leading operator: what they do to the event loop in a large cluster."""

import asyncio

import msgspec

from joulie_api.testing import make_node
from joulie_api.wire import decode_node
from joulie_core.hardware.inventory import Inventory
from joulie_operator.cluster import Cluster
from joulie_operator.loops import SLICE, OperatorLoops


class FreshWatch:
    def is_stale(self):
        return False


def loops_of(cluster):
    unused = dict.fromkeys(("trigger", "queue", "published", "wall", "on_pass"))
    return OperatorLoops(cluster, None, None, **unused, interval_s=60, debounce_s=1, sweep_interval_s=10)


async def test_other_tasks_run_while_the_hardware_of_many_nodes_is_resolved():
    cluster = Cluster(Inventory.load(), pods=FreshWatch(), on_change=lambda _change: None)
    for number in range(3 * SLICE):
        node = make_node(f"n{number}", cpu_model="AMD EPYC 7763", cpu_sockets=2, cpu=256)
        cluster.on_node(node["metadata"]["name"], None, decode_node(msgspec.json.encode(node)))
    resolved = []

    async def renew_lease():
        while True:
            resolved.append(len(cluster._hardware))
            await asyncio.sleep(0)

    lease = asyncio.create_task(renew_lease())
    await loops_of(cluster).prepare()
    lease.cancel()
    assert resolved == [SLICE, 2 * SLICE, 3 * SLICE]
