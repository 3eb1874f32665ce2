"""The publisher's workers and the event loop they share."""

import asyncio

from joulie_core.hardware.inventory import Inventory
from joulie_core.names import NodeName
from joulie_operator.cluster import Cluster
from joulie_operator.node_reconciler import NodeReconciler, PublishedObjects
from joulie_operator.workqueue import WorkQueue

NAMES = [NodeName(f"n{index}") for index in range(1000)]


async def test_a_long_queue_does_not_keep_others_from_the_loop():
    queue = WorkQueue()
    publisher = NodeReconciler(
        Cluster(Inventory.load()),
        None,
        None,
        queue=queue,
        writes=None,
        published=PublishedObjects({}, {}),
        report=None,
        on_refusal=None,
        wall=None,
    )
    for name in NAMES:
        queue.add(name)
    worker = asyncio.create_task(publisher.work())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    left = len(queue)
    worker.cancel()
    assert 0 < left < len(NAMES)
