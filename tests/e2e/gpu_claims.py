"""Claims (DRA) of GPUs of a real node: one that two pods share, and one that goes from a pod to the next."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from tests.e2e.dra_driver import DraDriver
from tests.e2e.gpu_node import GpuNode
from tests.e2e.gpu_pods import CLAIMED, PERFORMANCE, STANDARD, STAYS, TEMPLATE, Started, pod_on_gpus
from tests.e2e.waiting import eventually

from joulie_api.resources import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from joulie_testing.api import make_claim

_LIMITED_WITHIN_S: Final = 60.0
#: Of a claim beside its pods: the control plane frees a claim when the last of these is gone.
_KEPT_FOR: Final[Mapping[str, str]] = {
    "apiGroup": "test.joulie.io",
    "resource": "queues",
    "name": "jobs",
    "uid": "queue-of-jobs",
}


class Follows(Enum):
    """When the next pod of a claim is created."""

    #: Its claim is reserved while the pod before runs, whose process then ends.
    WHILE_THE_FIRST_RUNS = auto()
    #: The pod before is not there any more.
    WHEN_THE_FIRST_IS_GONE = auto()


@dataclass(frozen=True, slots=True)
class HandedClaim:
    """A claim that went from a standard to a performance pod.

    Attributes:
        limit_mhz: clock to which its GPU was held while the standard pod alone held it.
        then: the performance pod.
        holders: names of the pods that hold the GPU by the node's status, before and after.
        allocations: of the claim, before and after.
    """

    limit_mhz: int
    then: Started
    holders: tuple[list[str], list[str]]
    allocations: tuple[Any, Any]


@dataclass(slots=True)
class ClaimedGpus:
    """The GPUs of a node that a driver of claims offers."""

    site: GpuNode

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the driver, and offer a template of claims."""
        site = self.site
        driver = DraDriver(
            site.node, site.client, site.layout.claimed, lambda index: site.gpus.locks_mhz[index], site.assigned_mhz
        )
        template = make_claim(TEMPLATE, site.namespace, device_class=CLAIMED, template=True)
        await site.client.create(RESOURCE_CLAIM_TEMPLATES, template, site.namespace)
        async with driver.running():
            yield

    async def share(self) -> Started:
        """Give a performance pod the claim by which a standard pod holds a GPU, once that is limited."""
        first = await self.site.start(CLAIMED, STANDARD, then=STAYS, kind="standard")
        claims = (await self.site.pod(first.pod).status())["resourceClaimStatuses"]
        await self._limited(first.gpu)
        await self._create("sharing", PERFORMANCE, claims[0]["resourceClaimName"])
        started = await self.site.started("sharing")
        await asyncio.gather(self.site.pod("sharing").delete(), self.site.pod(first.pod).delete())
        assert started.gpu == first.gpu
        return started

    async def hand_over(self, claim: str, follows: Follows) -> HandedClaim:
        """Give a claim that stays allocated to a standard pod, and once its GPU is limited to a performance pod."""
        site = self.site
        await site.client.create(
            RESOURCE_CLAIMS, make_claim(claim, site.namespace, device_class=CLAIMED), site.namespace
        )
        first = await self._started(f"{claim}-first", STANDARD, claim)
        await self._reserve(claim, [*(await self._status(claim))["reservedFor"], _KEPT_FOR])
        await self._limited(first.gpu)
        held, allocation = await self._holders(first.gpu, first.pod), await self._allocation(claim)
        limit_mhz = site.gpus.locks_mhz[first.gpu]
        then = f"{claim}-then"
        if follows is Follows.WHEN_THE_FIRST_IS_GONE:
            await site.pod(first.pod).delete()
            await self._create(then, PERFORMANCE, claim)
        else:
            pids = await site.pod(first.pod).pids()
            await self._create(then, PERFORMANCE, claim)
            await eventually(lambda: self._reserved(claim, then), within_s=10)
            os.kill(min(pids), signal.SIGKILL)
        started = await site.started(then)
        held_then, allocation_then = await self._holders(first.gpu, then), await self._allocation(claim)
        if follows is Follows.WHILE_THE_FIRST_RUNS:
            await site.pod(first.pod).delete()
        await site.pod(then).delete()
        await self._free(claim)
        return HandedClaim(limit_mhz, started, (held, held_then), (allocation, allocation_then))

    async def _create(self, name: str, annotations: dict[str, str], claim: str) -> None:
        await self.site.create(name, annotations, pod_on_gpus(name, CLAIMED, STAYS, claim=claim))

    async def _started(self, name: str, annotations: dict[str, str], claim: str) -> Started:
        await self._create(name, annotations, claim)
        return await self.site.started(name)

    async def _limited(self, gpu: int) -> None:
        async def limited() -> None:
            assert self.site.gpus.locks_mhz[gpu] > 0

        await eventually(limited, within_s=_LIMITED_WITHIN_S)

    async def _holders(self, gpu: int, pod: str) -> list[str]:
        """Return the pods that hold a GPU by the node's status, once this one does alone."""

        async def is_held() -> None:
            assert await self.site.holders(gpu) == [pod]

        await eventually(is_held, within_s=30)
        return await self.site.holders(gpu)

    async def _status(self, claim: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self.site.client.get(RESOURCE_CLAIMS, claim, self.site.namespace))
        return dict(found["status"])

    async def _allocation(self, claim: str) -> Any:
        return (await self._status(claim))["allocation"]

    async def _reserved(self, claim: str, pod: str) -> None:
        assert pod in {each["name"] for each in (await self._status(claim))["reservedFor"]}

    async def _reserve(self, claim: str, consumers: list[Mapping[str, str]]) -> None:
        patch = {"status": {"reservedFor": consumers}}
        await self.site.client.merge_patch(RESOURCE_CLAIMS, claim, patch, self.site.namespace, "status")

    async def _free(self, claim: str) -> None:
        await self._reserve(claim, [])
        await self.site.client.delete(RESOURCE_CLAIMS, claim, self.site.namespace)
