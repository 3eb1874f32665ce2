"""Observers of the demo on the in-process API server."""

import asyncio
import contextlib

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from joulie_core import labels
from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_devcluster.control_plane.nodes import CpuClass, NodeClass
from joulie_sim.demo.errors import DemoError
from joulie_sim.demo.feeder import feed
from joulie_sim.demo.following import FollowingTasks
from joulie_sim.demo.observer import Observer
from joulie_sim.demo.sleeping.observer import SleepingObserver
from joulie_sim.demo.sleeping.power import Power
from joulie_sim.demo.sleeping.servers import SleepingServers
from joulie_sim.demo.sleeping.wall_power import WallPower
from joulie_sim.demo.time_scale import TimeScale
from joulie_sim.workload.item import WorkItem
from joulie_testing.api.builders import make_node

ITEM = WorkItem(
    name="p",
    arrives_s=0.0,
    workload_class=WorkloadClass.STANDARD,
    cpu_milli=1000,
    memory_mib=64,
    work_s=60.0,
    cpu_utilization=1.0,
)


class Clock:
    """Seconds that a test sets; `read` is set whenever an observer records something."""

    def __init__(self):
        self.now_s = 0.0
        self.read = asyncio.Event()

    def __call__(self):
        self.read.set()
        return self.now_s


@contextlib.asynccontextmanager
async def watching(observer):
    async with asyncio.timeout(10.0), FollowingTasks() as tasks:
        for each in observer.runs():
            tasks.follow(each)
        yield


async def moved(clock, now_s, change):
    """Make a change at a time and wait until it is observed."""
    clock.now_s = now_s
    clock.read.clear()
    change()
    await clock.read.wait()


def servers_of(clock):
    """Return the servers of one node, `n-0`."""
    classes = (NodeClass(name="n", count=1, cpu=CpuClass(model="AMD-EPYC-9654", cores=192), memory="768Gi"),)
    return SleepingServers(WallPower(classes), scale=TimeScale(60.0), clock=clock)


async def test_an_observer_of_sleep_records_pods_and_wakes_by_its_own_clock(fake_api, fake_client):
    clock = Clock()
    servers = servers_of(clock)
    observer = SleepingObserver(fake_client, sim_url="", workload="day", clock=clock, servers=servers)
    fake_api.put(make_node("n", labels={labels.SLEEP_STATE: "asleep"}))

    def labelled(state):
        fake_api.patch("Node", "n", {"metadata": {"labels": {labels.SLEEP_STATE: state}}})

    async with watching(observer):
        await clock.read.wait()
        await moved(clock, 100.0, lambda: labelled("waking"))
        await moved(clock, 400.0, lambda: labelled(None))
        assert observer.wakes_s == [300.0]
        clock.now_s = 500.0
        await feed(fake_client, [ITEM], workload="day", clock=clock, on_create=observer.created)
        assert observer.record.pods["p"].created_s == 500.0
        bound = {"spec": {"nodeName": "n"}, "status": {"phase": "Running"}}
        await moved(clock, 788.0, lambda: fake_api.patch("Pod", "p", bound, "default"))
        done = {"status": {"phase": "Succeeded"}}
        await moved(clock, 878.0, lambda: fake_api.patch("Pod", "p", done, "default"))
        pod = observer.record.pods["p"]
        assert (pod.wait_s, pod.finished_s, pod.slowdown) == (288.0, 878.0, 1.5)


async def test_watts_are_those_of_the_server_at_the_wall_and_the_energy_is_that_of_the_samples(fake_client):
    clock = Clock()
    servers = servers_of(clock)
    server, idle = servers.servers["n-0"], servers.wall_power.idle_watts("n-0")
    node = {"watts": 200.0, "capWatts": 800.0, "jobs": [], "cpuUtilization": 0.0, "gpuWatts": 0.0}
    state = {
        "watts": 200.0,
        "energyJoulesByClass": dict.fromkeys(SchedulableClass, 100.0),
        "completed": {each: {"meanSlowdown": None, "pods": 0} for each in WorkloadClass},
        "nodes": {"n-0": node},
    }
    app = web.Application()

    async def answer(_request):
        return web.json_response(state)

    app.router.add_get("/state", answer)
    async with TestServer(app) as served, aiohttp.ClientSession() as session:
        url = str(served.make_url("")).rstrip("/")
        observer = SleepingObserver(fake_client, sim_url=url, workload="demo", clock=clock, servers=servers)
        observer.record.node_seen("n-0", SchedulableClass.PERFORMANCE, 0.0)
        await observer.sample(session)
        server.reset("ForceOff")
        clock.now_s = 10.0
        sample = await observer.sample(session)
        clock.now_s = 30.0
        await observer.sample(session)
    assert sample.by_power[Power.ASLEEP].watts == sample.watts == 15.0
    assert observer.energy_joules[SchedulableClass.PERFORMANCE] == pytest.approx(10.0 * idle + 20.0 * 15.0)
    assert observer.slowdown is None


async def test_a_run_begins_when_the_operator_has_assigned_a_profile_to_every_node(fake_api, fake_client):
    clock = Clock()
    observer = Observer(fake_client, sim_url="", workload="demo", clock=clock)
    for name in ("a", "b"):
        fake_api.put(make_node(name))
    checks = []

    async def check():
        checks.append(dict(observer.record.classes))
        name = "a" if len(checks) == 1 else "b"
        fake_api.patch("Node", name, {"metadata": {"labels": {labels.POWER_PROFILE: "eco"}}})

    async with watching(observer):
        await observer.wait_planned(check, nodes=2)
    assert observer.record.classes == dict.fromkeys("ab", SchedulableClass.ECO)
    assert len(checks) >= 2


async def test_a_run_without_a_plan_names_the_nodes_that_have_no_profile(fake_api, fake_client):
    observer = Observer(fake_client, sim_url="", workload="demo", clock=Clock())
    fake_api.put(make_node("a"))

    async def check():
        pass

    async with watching(observer):
        await asyncio.wait_for(observer._clock.read.wait(), 30.0)
        with pytest.raises(DemoError, match=r"1 of 1 nodes have no profile after 0 s: \['a'\]"):
            await observer.wait_planned(check, nodes=1, timeout_s=0.0)
