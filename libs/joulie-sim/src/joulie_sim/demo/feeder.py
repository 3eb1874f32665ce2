"""Creation of a workload's pods at their arrival times."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from joulie_api.client import KubeClient
from joulie_api.resources import PODS
from joulie_sim.demo.time_scale import TimeScale
from joulie_sim.workload.item import WorkItem, pod_manifest

NAMESPACE: Final = "default"
_IN_FLIGHT: Final = 16
_REAL_TIME: Final = TimeScale(1.0)


async def feed(
    client: KubeClient,
    items: Sequence[WorkItem],
    *,
    workload: str,
    clock: Callable[[], float],
    on_create: Callable[[WorkItem], None],
    scale: TimeScale = _REAL_TIME,
    spec: Mapping[str, Any] | None = None,
) -> None:
    """Create every pod at its arrival time; return when all are created.

    Args:
        client: client that may create pods in `NAMESPACE`.
        items: pods in order of arrival, with simulated times.
        workload: value of the pods' workload label.
        clock: returns the seconds of the clock since the start of the workload.
        on_create: called right before each pod is created.
        scale: of the arrival times; the default is real time.
        spec: fields added to the spec of each pod, for clusters with nodes that are not for them.

    Raises:
        ExceptionGroup: of `joulie_api.errors.KubeError`, if the API server refuses a pod.
    """
    slots = asyncio.Semaphore(_IN_FLIGHT)

    async def create(item: WorkItem) -> None:
        try:
            await client.create(PODS, pod_manifest(item, workload=workload, spec=spec), NAMESPACE)
        finally:
            slots.release()

    async with asyncio.TaskGroup() as group:
        for item in items:
            await asyncio.sleep(max(0.0, scale.clock_s(item.arrives_s) - clock()))
            await slots.acquire()
            on_create(item)
            group.create_task(create(item))
