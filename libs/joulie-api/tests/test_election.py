"""The elector in virtual time, with a lease in memory, and once over HTTP."""

import asyncio
import json
import re
import time

import pytest
from structlog.testing import capture_logs

from joulie_api.election import Elector
from joulie_api.errors import AlreadyExists, Conflict, LeadershipLost, NotFound, TransportError
from joulie_api.resources import LEASES
from joulie_core.timestamps import age_seconds

pytestmark = pytest.mark.looptime


class LeaseServer:
    """One lease with optimistic locking."""

    def __init__(self):
        self.lease = None
        self.version = 0
        self.writes = []

    def client(self):
        return LeaseClient(self)

    def store(self, body):
        self.version += 1
        metadata = {**body["metadata"], "resourceVersion": str(self.version)}
        self.lease = {**body, "metadata": metadata}
        self.writes.append(self.lease["spec"])
        return json.dumps(self.lease).encode()


class LeaseClient:
    """The client of one candidate; `cut`: no connection, `hanging`: no answer."""

    def __init__(self, server):
        self.server = server
        self.cut = False
        self.hanging = False
        #: The next write lands, and its answer is lost.
        self.lose_answer = False

    async def reach(self):
        if self.hanging:
            await asyncio.Event().wait()
        await asyncio.sleep(0.01)
        if self.cut:
            raise TransportError("cut off")

    def answer(self, raw):
        if self.lose_answer:
            self.lose_answer = False
            raise TransportError("answer lost")
        return raw

    async def get(self, res, name, namespace=None):
        assert (res, name, namespace) == (LEASES, "op", "joulie")
        await self.reach()
        if self.server.lease is None:
            raise NotFound(404, "NotFound", "no such lease")
        return json.dumps(self.server.lease).encode()

    async def create(self, res, body, namespace=None):
        await self.reach()
        if self.server.lease is not None:
            raise AlreadyExists(409, "AlreadyExists", "taken")
        return self.answer(self.server.store(body))

    async def replace(self, res, name, body, namespace=None):
        await self.reach()
        if self.server.lease is None:
            raise NotFound(404, "NotFound", "no such lease")
        if body["metadata"]["resourceVersion"] != self.server.lease["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "changed")
        return self.answer(self.server.store(body))


class Replica:
    """A running elector; records each second at which it leads."""

    def __init__(self, server, name):
        self.client = server.client()
        self.elector = Elector(self.client, namespace="joulie", name="op", identity=name)
        self.led = []
        self.task = asyncio.create_task(self.elector.run(self.work))

    async def work(self):
        while True:
            if self.elector.is_leading():
                self.led.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0.1)

    async def stop(self):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
def server():
    return LeaseServer()


def now():
    return asyncio.get_running_loop().time()


async def test_the_only_candidate_leads_at_once_and_renews(server):
    replica = Replica(server, "a")
    await asyncio.sleep(60)
    await replica.stop()
    assert replica.led[0] < 0.1
    assert max(later - earlier for earlier, later in zip(replica.led, replica.led[1:], strict=False)) < 0.2
    assert 28 < len(server.writes) < 45


async def test_the_lease_has_holder_times_and_transitions(server):
    replica = Replica(server, "a")
    await asyncio.sleep(10)
    spec = server.lease["spec"]
    await replica.stop()
    assert re.fullmatch(r"a_[0-9a-f]{8}", spec["holderIdentity"])
    assert (spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (15, 0)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", spec["renewTime"])
    assert abs(age_seconds(spec["renewTime"], time.time())) < 60
    assert spec["acquireTime"] <= spec["renewTime"]


async def test_a_clean_exit_hands_over_within_a_retry_period(server):
    first = Replica(server, "a")
    await asyncio.sleep(1)
    second = Replica(server, "b")
    await asyncio.sleep(10)
    assert second.led == []
    await first.stop()
    left_at = now()
    assert server.lease["spec"]["holderIdentity"] == ""
    await asyncio.sleep(5)
    await second.stop()
    assert second.led[0] - left_at < 2.1
    assert server.writes[-2]["leaseTransitions"] == 1


async def test_each_leader_has_a_higher_term_and_raises_it_where_it_is_asked_to(server):
    first = Replica(server, "a")
    await asyncio.sleep(1)
    assert first.elector.term() == 0
    assert first.elector.term(above=6) is None
    await asyncio.sleep(3)
    assert first.elector.term(above=6) == 7
    await first.stop()
    assert first.elector.term() is None
    again = Replica(server, "a")
    await asyncio.sleep(3)
    assert again.elector.term() == 8
    await again.stop()


async def test_a_holder_that_dies_is_replaced_within_20_seconds(server):
    first = Replica(server, "a")
    await asyncio.sleep(1)
    second = Replica(server, "b")
    await asyncio.sleep(10)
    first.client.cut = True
    died_at = now()
    await asyncio.sleep(30)
    assert 13 < second.led[0] - died_at < 20
    await second.stop()
    await first.stop()


async def test_a_holder_that_is_cut_off_stops_leading_before_the_other_starts(server):
    first = Replica(server, "a")
    await asyncio.sleep(1)
    second = Replica(server, "b")
    await asyncio.sleep(10)
    first.client.cut = True
    cut_at = now()
    with pytest.raises(LeadershipLost, match="not renewed within 10 s"):
        await first.task
    assert now() - cut_at < 10.1
    await asyncio.sleep(20)
    await second.stop()
    assert first.led[-1] < second.led[0] - 4


async def test_a_server_that_hangs_is_handled_like_one_that_refuses(server):
    replica = Replica(server, "a")
    await asyncio.sleep(1)
    replica.client.hanging = True
    with pytest.raises(LeadershipLost):
        await replica.task
    assert now() < 13
    assert not replica.elector.is_leading()


async def test_a_short_outage_costs_nothing(server):
    replica = Replica(server, "a")
    await asyncio.sleep(5)
    with capture_logs() as logs:
        replica.client.cut = True
        await asyncio.sleep(5)
        replica.client.cut = False
        await asyncio.sleep(20)
    assert replica.led[-1] > now() - 0.2
    await replica.stop()
    assert [log["event"] for log in logs] == ["lease request failed", "lease request recovered"]


async def test_a_renewal_whose_answer_was_lost_is_recognized(server):
    replica = Replica(server, "a")
    await asyncio.sleep(5)
    replica.client.lose_answer = True
    await asyncio.sleep(30)
    assert replica.led[-1] > now() - 0.2
    assert server.lease["spec"]["leaseTransitions"] == 0
    await replica.stop()


async def test_an_acquisition_whose_answer_was_lost_is_recognized(server):
    replica = Replica(server, "a")
    replica.client.lose_answer = True
    await asyncio.sleep(5)
    assert 0 < replica.led[0] < 3
    await replica.stop()


async def test_a_renewal_cut_short_by_the_end_does_not_keep_the_lease(server):
    """The request is sent before the run is cancelled, and arrives while the lease is being released."""
    replica = Replica(server, "a")
    await asyncio.sleep(5)
    land = replica.client.replace

    async def land_later(res, name, body, namespace=None):
        replica.client.replace = land
        raw = await land(res, name, body, namespace)
        await asyncio.Event().wait()
        return raw

    replica.client.replace = land_later
    before = len(server.writes)
    while len(server.writes) == before:  # noqa: ASYNC110 - virtual time
        await asyncio.sleep(0.1)
    await replica.stop()
    assert server.lease["spec"]["holderIdentity"] == ""


async def test_a_lease_taken_by_another_process_ends_leading(server):
    replica = Replica(server, "a")
    await asyncio.sleep(5)
    server.store({**server.lease, "spec": {"holderIdentity": "thief", "leaseDurationSeconds": 15}})
    with pytest.raises(LeadershipLost, match="held by thief"):
        await replica.task
    assert now() < 10
    assert server.lease["spec"]["holderIdentity"] == "thief", "the lease of another is not released"


async def test_the_end_of_the_worker_ends_the_run_and_releases(server):
    async def work():
        await asyncio.sleep(3)

    elector = Elector(server.client(), namespace="joulie", name="op", identity="a")
    await elector.run(work)
    assert not elector.is_leading()
    assert server.lease["spec"]["holderIdentity"] == ""


async def test_a_worker_that_fails_ends_the_run_and_releases(server):
    async def work():
        raise ValueError("bug")

    elector = Elector(server.client(), namespace="joulie", name="op", identity="a")
    with pytest.raises(ExceptionGroup) as failed:
        await elector.run(work)
    assert failed.group_contains(ValueError, match="bug")
    assert server.lease["spec"]["holderIdentity"] == ""


async def test_the_worker_is_over_before_the_lease_is_released(server):
    order = []

    async def work():
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(1)
            order.append(("worker over", server.lease["spec"]["holderIdentity"] != ""))

    elector = Elector(server.client(), namespace="joulie", name="op", identity="a")
    task = asyncio.create_task(elector.run(work))
    await asyncio.sleep(5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert order == [("worker over", True)]
    assert server.lease["spec"]["holderIdentity"] == ""


async def test_a_candidate_that_stops_waiting_releases_nothing(server):
    first, second = Replica(server, "a"), Replica(server, "b")
    await asyncio.sleep(5)
    await second.stop()
    assert first.elector.is_leading()
    assert server.lease["spec"]["holderIdentity"] == first.elector.identity
    await first.stop()


async def test_a_process_that_was_stopped_wakes_up_not_leading(server):
    first = Replica(server, "a")
    await asyncio.sleep(5)
    assert first.elector.is_leading()
    clock = first.elector._clock
    first.elector._clock = lambda: clock() + 12  # what the clock says to a process that was stopped for 12 s
    assert not first.elector.is_leading()
    await first.stop()


async def test_two_processes_with_the_same_identity_do_not_both_lead(server):
    first, second = Replica(server, "same"), Replica(server, "same")
    await asyncio.sleep(10)
    assert [bool(first.led), bool(second.led)].count(True) == 1
    await first.stop()
    await second.stop()


@pytest.mark.parametrize(("duration", "deadline", "retry"), [(10, 10, 2), (15, 2, 2), (15, 10, 0)])
def test_times_that_cannot_work_are_refused(server, duration, deadline, retry):
    with pytest.raises(ValueError, match="lease duration > renew deadline > retry period"):
        Elector(
            server.client(),
            namespace="joulie",
            name="op",
            identity="a",
            lease_duration_s=duration,
            renew_deadline_s=deadline,
            retry_period_s=retry,
        )


@pytest.mark.looptime(False)
async def test_over_http_a_lease_is_created_renewed_and_released(fake_api, fake_client):
    elector = Elector(
        fake_client,
        namespace="joulie",
        name="op",
        identity="a",
        lease_duration_s=3,
        renew_deadline_s=2,
        retry_period_s=0.4,
    )

    async def work():
        await fake_api.wait_for(lambda: len(fake_api.requests.find(verb="replace")) >= 3)

    await elector.run(work)
    assert fake_api.get("Lease", "op", "joulie")["spec"]["holderIdentity"] == ""
