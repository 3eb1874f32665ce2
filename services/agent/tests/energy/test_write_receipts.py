"""Receipts as Events: what they say, and that the API server has one for each pod."""

import asyncio
import time

import pytest

from joulie_agent.energy.receipts import Receipts, ReceiptSources, message_of
from joulie_api.pod_events import PodEvent, PodEvents, name_of_once
from joulie_core.attribution.energy import AllocationRule, EnergyKind, HolderEnergy, StatedEnergy
from joulie_core.attribution.receipts import SETTLE_S, PodReceipt
from joulie_core.attribution.sums import EnergySum
from joulie_core.attribution.totals import MeteredDevice
from joulie_core.demand import WorkloadClass
from joulie_core.holders.records import NodePod

CPU, GPU = MeteredDevice.CPU, MeteredDevice.GPU
MEASURED, ALLOCATED = EnergyKind.MEASURED, EnergyKind.ALLOCATED
UID = "11111111-2222-3333-4444-555555555555"
T0 = 1_700_000_000.0


def receipt(energy, **changes):
    fields = {
        "namespace": "ml",
        "pod": "train-0",
        "uid": UID,
        "started_at_s": T0,
        "since_s": T0 - 4.0,
        "ended_at_s": T0 + 620.0,
        "energy": energy,
        "cpu_uncounted_s": 0.0,
        "has_gpus": False,
    }
    return PodReceipt(**{**fields, **changes})


CPUS = {(CPU, ALLOCATED): EnergySum(1234.56, 800.0, 1600.0)}


def test_a_receipt_has_point_bounds_kind_and_time_of_each_device():
    gpus = {(GPU, MEASURED): EnergySum(5e6, 5e6, 5e6), (GPU, ALLOCATED): EnergySum(100.0, 0.0, 200.0)}
    assert message_of(receipt({**gpus, **CPUS}, has_gpus=True)) == (
        "Energy from 2023-11-14T22:13:20Z to 2023-11-14T22:23:40Z, 620 s: CPU 1234.6 J (800.0 to 1600.0 J), allocated; "
        "GPU 100.0 J (0.0 to 200.0 J), allocated; GPU 5000000.0 J (5000000.0 to 5000000.0 J), measured."
    )


def test_what_is_not_known_is_said_and_is_not_zero():
    assert message_of(receipt(CPUS, has_gpus=True)).endswith("; GPU unknown.")
    assert "CPU unknown; GPU 7.0 J" in message_of(receipt({(GPU, MEASURED): EnergySum(7.0, 7.0, 7.0)}))
    assert "GPU" not in message_of(receipt(CPUS))


def test_a_pod_that_was_not_followed_from_its_start_says_since_when():
    text = message_of(receipt(CPUS, started_at_s=T0 - 3600.0, since_s=T0))
    assert text.startswith("Energy from 2023-11-14T22:13:20Z to ")
    began = "the pod started at 2023-11-14T21:13:20Z, and its energy before is not counted."
    assert text.endswith(f" Since 2023-11-14T22:13:20Z only: {began}")
    assert "started at a time that is not known" in message_of(receipt(CPUS, started_at_s=None))


def test_seconds_that_are_not_counted_are_said():
    assert message_of(receipt(CPUS, cpu_uncounted_s=40.2)).endswith(
        "CPU energy of 40 s is not counted: it could not be split between pods."
    )
    assert "not counted" not in message_of(receipt(CPUS, cpu_uncounted_s=0.4))


def test_the_longest_receipt_fits_what_the_api_server_takes():
    huge = EnergySum(1e15, 1e15, 1e15)
    energy = {(device, kind): huge for device in MeteredDevice for kind in EnergyKind}
    text = message_of(receipt(energy, started_at_s=0.0, since_s=T0, ended_at_s=2e10, cpu_uncounted_s=1e12))
    assert len(text) < 1024
    assert len(name_of_once("p" * 253, UID, "energy")) <= 253


class Node:
    """The receipts of one node, whose clock a test moves."""

    def __init__(self, client, name="n1"):
        self.now_s = T0
        self.events = PodEvents(client, component="joulie-agent", node=name, wall_time=time.time, interval_s=0.0)
        self.receipts = Receipts(ReceiptSources(list, lambda: self.now_s, self.events.record))

    def run_one_pod(self):
        """Let a pod be there for one interval, and end."""
        pod = NodePod("ml", "train-0", UID, True, WorkloadClass.STANDARD, started_at_s=T0, cgroup_uid=UID)
        self.receipts.looked({"ml/train-0": pod})
        energy = HolderEnergy(UID, ALLOCATED, AllocationRule.CPU_TIME_BAND, 2.0, 1.0, 3.0)
        self.receipts.add(CPU, StatedEnergy((energy,), 0.0, 0.0), 10.0)
        for seconds in (10.0, SETTLE_S):
            self.now_s += seconds
            self.receipts.looked({})
            self.receipts.write()


@pytest.fixture
async def write(fake_api, fake_client):
    """Makes an agent that has just started, lets it see a pod end, and waits until it has written all it has."""
    tasks = []

    async def run(times=1):
        node = Node(fake_client)
        for _ in range(times):
            node.run_one_pod()
        node.events.record(PodEvent("ml", "last", "", "Last", str(len(tasks))))
        tasks.append(asyncio.create_task(node.events.run()))
        await fake_api.wait_for(
            lambda: len([each for each in fake_api.objects("Event") if each["reason"] == "Last"]) == len(tasks)
        )
        return [each for each in fake_api.objects("Event") if each["reason"] != "Last"]

    yield run
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_receipt_is_an_event_about_the_pod_in_its_namespace(write):
    (event,) = await write()
    assert event["metadata"]["name"] == f"train-0.energy.{UID}"
    assert event["metadata"]["namespace"] == "ml"
    assert (event["type"], event["reason"]) == ("Normal", "EnergyReceipt")
    about = {"apiVersion": "v1", "kind": "Pod", "name": "train-0", "uid": UID, "namespace": "ml"}
    assert event["involvedObject"] == about
    assert event["source"] == {"component": "joulie-agent", "host": "n1"}
    assert "CPU 2.0 J (1.0 to 3.0 J), allocated" in event["message"]


async def test_an_agent_that_repeats_a_receipt_adds_no_event_and_goes_on(fake_api, write):
    first = await write()
    again = await write(2)
    assert again == first
    assert [each.status for each in creations(fake_api)].count(409) >= 1


def creations(fake_api):
    return [each for each in fake_api.requests if (each.verb, each.kind) == ("create", "Event")]
