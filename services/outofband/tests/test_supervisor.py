"""Tasks of workers: one for each object, and none that ends another."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry
from services.outofband.tests.doubles import counted, node_bmc
from structlog.testing import capture_logs

from joulie_api.failures import Failures
from joulie_core.kinds import NodeBMCStatus
from joulie_outofband.metrics import BmcSeries
from joulie_outofband.supervisor import BmcSupervisor


@pytest.fixture(autouse=True)
def _no_tracebacks():
    """Keep what is logged from being rendered, which takes most of the time of a test with a defect."""
    with capture_logs():
        yield


class Worker:
    """Records what it is asked; runs until `end`, or fails as often as `failures` says."""

    def __init__(self, bmc, log, *, failures=0):
        self.name, self.uid = bmc.name, bmc.metadata.uid
        self.status, self.cap_overdue, self.put_to_sleep = NodeBMCStatus(), True, True
        self.log = log
        self.failures = failures
        self.ending = asyncio.Event()
        self.released = asyncio.Event()
        self.released.set()

    async def run(self):
        self.log.append(("run", self.uid))
        if self.failures:
            self.failures -= 1
            raise ValueError(self.name)
        await self.ending.wait()
        await self.released.wait()
        self.log.append(("done", self.uid))

    def update(self, bmc):
        self.log.append(("update", bmc.metadata.generation))

    def end(self):
        self.log.append(("end", self.uid))
        self.ending.set()


class Rejections:
    def __init__(self):
        self.shown = []

    async def show(self, invalid, workers):
        self.shown.append((dict(invalid), dict(workers)))


class Watch:
    """Stands for a reflector."""

    def __init__(self):
        self.synced = asyncio.Event()
        self.invalid = {"bad": "why"}

    async def wait_synced(self):
        await self.synced.wait()

    def subscribe(self, handler):
        self.put = handler


def bmc(name="n1", uid="u1", generation=1):
    found = node_bmc(name, generation=generation)
    return type(found)(type(found.metadata)(**{**_fields(found.metadata), "uid": uid}), found.model)


def _fields(metadata):
    return {name: getattr(metadata, name) for name in metadata.__dataclass_fields__}


async def rounds(count=20):
    for _ in range(count):
        await asyncio.sleep(0)


@asynccontextmanager
async def supervised(*, failures=0, retry_s=3600.0):
    watch, log, registry = Watch(), [], CollectorRegistry()
    made = []

    def make(found):
        made.append(Worker(found, log, failures=failures if found.name == "bad" else 0))
        return made[-1]

    supervisor = BmcSupervisor(watch, make, rejections=Rejections(), failures=Failures(registry), retry_s=retry_s)
    supervisor.log, supervisor.made, supervisor.watch, supervisor.registry = log, made, watch, registry
    task = asyncio.create_task(supervisor.run())
    try:
        await rounds()
        assert not hasattr(watch, "put"), "not before the first list is complete"
        watch.synced.set()
        await rounds()
        yield supervisor
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_an_object_has_one_worker_that_is_updated_and_ends_with_it():
    async with supervised() as found:
        found.watch.put("n1", None, bmc())
        found.watch.put("n1", None, bmc(generation=2))
        await rounds()
        assert found.log == [("update", 2), ("run", "u1")]
        assert found.series() == {"n1": BmcSeries(found.made[0].status, cap_overdue=True, put_to_sleep=True)}
        found.watch.put("n1", None, None)
        await rounds()
        assert (found.log[2:], found.series(), found._tasks) == ([("end", "u1"), ("done", "u1")], {}, {})
        found.watch.put("n1", None, None)


async def test_the_worker_of_an_object_that_was_made_again_starts_when_the_one_before_has_ended():
    async with supervised() as found:
        found.watch.put("n1", None, bmc())
        await rounds()
        found.made[0].released.clear()
        found.watch.put("n1", None, bmc(uid="u2"))
        await rounds()
        assert found.log == [("run", "u1"), ("end", "u1")]
        found.made[0].released.set()
        await rounds()
        assert found.log[2:] == [("done", "u1"), ("run", "u2")]
        assert list(found._tasks) == ["n1"]


async def test_a_worker_that_fails_is_counted_started_again_and_ends_no_other():
    async with supervised(failures=2, retry_s=0.001) as found:
        found.watch.put("bad", None, bmc("bad", "u1"))
        found.watch.put("good", None, bmc("good", "u2"))
        async with asyncio.timeout(30):
            while found.log.count(("run", "u1")) < 3:  # noqa: ASYNC110 - there is nothing that would set an event
                await asyncio.sleep(0)
        assert found.log.count(("run", "u2")) == 1
        assert counted(found.registry, "joulie_internal_errors", work="bmc worker") == 2
        assert len(found._rejections.shown) > 1


async def test_a_worker_that_fails_waits_before_it_is_started_again():
    async with supervised(failures=2) as found:
        with capture_logs() as logs:
            found.watch.put("bad", None, bmc("bad"))
            await rounds()
        assert found.log == [("run", "u1")]
        assert [(each["node"], each["cause"]) for each in logs] == [("bad", "ValueError")]


async def test_objects_that_cannot_be_used_are_shown_with_the_workers_there_are():
    async with supervised() as found:
        assert found._rejections.shown == [({"bad": "why"}, {})]
