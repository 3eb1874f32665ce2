"""Updates on the resource manager's own initiative, as they are sent to the runtime."""

import asyncio
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from joulie_containers.nri.handler import NriDisconnectedError, NriRequestError
from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.resources.ledger import Ledger, SentUpdate
from joulie_containers.resources.updates import Updater, add_updates
from joulie_containers.resources.values import ContainerValues
from joulie_core.containers.container import ContainerId
from joulie_core.containers.idset import Cpus

pytestmark = pytest.mark.looptime


class Runtime:
    def __init__(self):
        self.requests = []
        #: What the next requests raise, and which containers all of them fail.
        self.errors = []
        self.failing = set()

    async def update_containers(self, updates):
        self.requests.append((asyncio.get_running_loop().time(), [each.container_id for each in updates]))
        self.last = [nri.ContainerUpdate.FromString(each.SerializeToString()) for each in updates]
        if self.errors:
            raise self.errors.pop(0)
        return [nri.ContainerUpdate(container_id=name) for name in self.failing]

    def sent(self):
        return [names for _, names in self.requests]

    def pauses_s(self):
        times = [time for time, _ in self.requests]
        return [pytest.approx(later - earlier) for earlier, later in pairwise(times)]


@pytest.fixture
def runtime():
    return Runtime()


@pytest.fixture
async def ledger():
    return Ledger(asyncio.get_running_loop().time)


@pytest.fixture
async def updater(ledger, runtime):
    updater = Updater(ledger, runtime, lambda name: f"ns/pod/{name}")
    running = asyncio.create_task(updater.run())
    yield updater
    running.cancel()


def want(ledger, **containers):
    for name, cpus in containers.items():
        ledger.want(ContainerId(name), ContainerValues(cpus=Cpus.parse(cpus)))


async def test_pending_values_are_sent_in_one_message_and_once(updater, ledger, runtime):
    want(ledger, a="0-1", b="2-3")
    updater.wake()
    await asyncio.sleep(100)
    assert runtime.sent() == [["a", "b"]]
    assert [each.linux.resources.cpu.cpus for each in runtime.last] == ["0-1", "2-3"]
    assert not any(each.ignore_failure for each in runtime.last)
    assert (updater.sent, updater.failed) == (2, 0)
    assert not ledger.has_pending


async def test_more_than_a_message_takes_are_sent_in_several_without_a_pause(updater, ledger, runtime):
    want(ledger, **{f"c{number:02}": "0" for number in range(70)})
    updater.wake()
    await asyncio.sleep(0.5)
    assert [len(names) for names in runtime.sent()] == [32, 32, 6]
    assert updater.sent == 70


async def test_without_pending_values_nothing_is_sent(updater, runtime):
    updater.wake()
    await asyncio.sleep(100)
    assert runtime.requests == []


async def test_an_update_that_the_runtime_fails_is_counted_logged_once_and_repeated(updater, ledger, runtime):
    runtime.failing = {"a"}
    want(ledger, a="0", b="1")
    with capture_logs() as logs:
        updater.wake()
        await asyncio.sleep(5)
    assert runtime.sent() == [["a", "b"], ["a"], ["a"]]
    assert runtime.pauses_s() == [1, 2]
    assert (updater.sent, updater.failed) == (4, 3)
    assert [(line["event"], line["container"]) for line in logs] == [("container not updated", "ns/pod/a")]
    runtime.failing = set()
    with capture_logs() as logs:
        await asyncio.sleep(10)
    assert [(line["event"], line["container"]) for line in logs] == [("container updated again", "ns/pod/a")]
    assert not ledger.has_pending


async def test_a_refused_message_counts_as_failed_for_all_of_its_containers(updater, ledger, runtime):
    runtime.errors = [NriRequestError("busy")]
    want(ledger, a="0", b="1")
    with capture_logs() as logs:
        updater.wake()
        await asyncio.sleep(5)
    assert runtime.sent() == [["a", "b"], ["a", "b"]]
    assert (updater.sent, updater.failed) == (4, 2)
    assert (logs[0]["event"], logs[0]["problem"], logs[0]["containers"]) == ("updates not carried out", "busy", 2)


async def test_a_runtime_that_is_not_connected_is_tried_every_second_and_nothing_counts_as_sent(
    updater, ledger, runtime
):
    runtime.errors = [NriDisconnectedError("away")] * 2
    want(ledger, a="0")
    updater.wake()
    await asyncio.sleep(30)
    assert runtime.sent() == [["a"]] * 3
    assert (updater.sent, updater.failed) == (1, 0)
    assert not ledger.has_pending


async def test_what_is_wanted_while_nothing_is_to_do_is_sent_when_the_updater_is_woken(updater, ledger, runtime):
    await asyncio.sleep(50)
    want(ledger, a="0")
    await asyncio.sleep(50)
    assert runtime.requests == []
    updater.wake()
    await asyncio.sleep(0.1)
    assert runtime.sent() == [["a"]]


async def test_failures_of_containers_that_have_ended_are_forgotten(updater, ledger, runtime):
    runtime.failing = {f"c{number}" for number in range(20)}
    want(ledger, **dict.fromkeys(runtime.failing, "0"))
    updater.wake()
    await asyncio.sleep(0.5)
    assert len(updater._failures._failures) == 20
    for name in runtime.failing:
        ledger.forget(ContainerId(name))
    want(ledger, other="0")
    updater.wake()
    await asyncio.sleep(0.5)
    assert not updater._failures._failures


def test_messages_of_equal_values_are_equal_but_for_the_container():
    values, other = ContainerValues(cpus=Cpus.parse("0-3")), ContainerValues(cpus=Cpus.parse("4"), cpu_shares=7)
    request = nri.UpdateContainersRequest()
    add_updates(
        request.update,
        [
            SentUpdate(ContainerId("a"), values, must_succeed=True),
            SentUpdate(ContainerId("b"), values, must_succeed=False),
            SentUpdate(ContainerId("c"), values, must_succeed=True),
            SentUpdate(ContainerId("d"), other, must_succeed=True),
        ],
    )
    assert [(each.container_id, each.linux.resources.cpu.cpus, each.ignore_failure) for each in request.update] == [
        ("a", "0-3", False),
        ("b", "0-3", True),
        ("c", "0-3", False),
        ("d", "4", False),
    ]
    assert [each.linux.resources.cpu.HasField("shares") for each in request.update] == [False, False, False, True]
