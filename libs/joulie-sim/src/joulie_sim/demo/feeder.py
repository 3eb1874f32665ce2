"""Creation of the pods of a workload at their arrival times."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from joulie_api.client import KubeClient
from joulie_api.resources import PODS
from joulie_sim.workload.item import WorkItem, pod_manifest

NAMESPACE: Final = "default"
_IN_FLIGHT: Final = 16


async def feed(
    client: KubeClient,
    items: Sequence[WorkItem],
    *,
    workload: str,
    clock: Callable[[], float],
    on_create: Callable[[WorkItem], None],
) -> None:
    """Create every pod at its time; returns when the last one is there.

    Args:
        client: with the right to create pods in `NAMESPACE`.
        items: in order of arrival.
        workload: value of the pods' workload label.
        clock: seconds since the workload began.
        on_create: told right before each pod is sent.

    Raises:
        ExceptionGroup: of joulie_api's KubeError, where the API server refuses a pod.
    """
    slots = asyncio.Semaphore(_IN_FLIGHT)

    async def create(item: WorkItem) -> None:
        try:
            await client.create(PODS, pod_manifest(item, workload=workload), NAMESPACE)
        finally:
            slots.release()

    async with asyncio.TaskGroup() as group:
        for item in items:
            await asyncio.sleep(max(0.0, item.arrives_s - clock()))
            await slots.acquire()
            on_create(item)
            group.create_task(create(item))
