"""Receipts of energy on a real API server: one Event for each pod, whatever is repeated."""

import asyncio
import json
import time
from typing import Any

import pytest
from tests.e2e.waiting import eventually

from joulie_agent.energy.receipts import Receipts, ReceiptSources
from joulie_api.client import KubeClient
from joulie_api.pod_events import PodEvent, PodEvents
from joulie_api.resources import EVENTS
from joulie_api.wire import decode_page
from joulie_core.attribution.energy import AllocationRule, EnergyKind, HolderEnergy, StatedEnergy
from joulie_core.attribution.receipts import SETTLE_S
from joulie_core.attribution.totals import MeteredDevice
from joulie_core.demand import WorkloadClass
from joulie_core.holders.records import NodePod

pytestmark = pytest.mark.e2e

UID = "11111111-2222-3333-4444-555555555555"


async def test_the_api_server_takes_one_receipt_of_a_pod_with_the_longest_name(
    kube_client: KubeClient, kube_namespace: str
) -> None:
    name = "p" * 253
    pod = NodePod(kube_namespace, name, UID, True, WorkloadClass.STANDARD, started_at_s=time.time(), cgroup_uid=UID)
    energy = HolderEnergy(UID, EnergyKind.ALLOCATED, AllocationRule.CPU_TIME_BAND, 2.0, 1.0, 3.0)

    async def found(reason: str) -> list[dict[str, Any]]:
        page = decode_page(await kube_client.list_page(EVENTS, kube_namespace))
        return [event for each in page.items or () if (event := json.loads(bytes(each)))["reason"] == reason]

    async def run_agent(number: int) -> None:
        events = PodEvents(kube_client, component="joulie-agent", node="n1", wall_time=time.time, interval_s=0.0)
        now_s = time.time()
        receipts = Receipts(ReceiptSources(tuple, lambda: now_s, events.record))
        receipts.looked({pod.key: pod})
        receipts.add(MeteredDevice.CPU, StatedEnergy((energy,), 0.0, 0.0), 10.0)
        for seconds in (10.0, SETTLE_S):
            now_s += seconds
            receipts.looked({})
            receipts.write()
        events.record(PodEvent(kube_namespace, "last", "", "Last", f"run {number}"))

        async def written() -> bool:
            return len(await found("Last")) == number

        task = asyncio.create_task(events.run())
        try:
            await eventually(written, within_s=20)
        finally:
            task.cancel()

    await run_agent(1)
    (first,) = await found("EnergyReceipt")
    await run_agent(2)
    assert await found("EnergyReceipt") == [first]
    assert (first["type"], first["involvedObject"]["uid"]) == ("Normal", UID)
