"""The process of the resource manager, really killed in every function and around every system call of its work.

The runtime goes on without its plugin, as containerd does: what it would have asked is carried out unchanged. In half
of the trials the next process starts at once, in the others after everything else has happened without one.
"""

import asyncio
import os
import random
import sys
import threading
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGKILL

import pytest

from joulie_api.settings import read_settings
from joulie_containers import nri as nri_package
from joulie_containers import resources as resources_package
from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.nri.ttrpc import TtrpcError
from joulie_containers.resources import process
from joulie_containers.resources.settings import ResourcesSettings
from joulie_core.containers.idset import IdSet
from joulie_testing.agent.fake_nri_runtime import FakeNriRuntime
from joulie_testing.agent.host_files import put_host
from joulie_testing.core.machines import MachineShape

PACKAGES = tuple(str(Path(each.__path__[0])) for each in (nri_package, resources_package))
#: Modules of those that read the host and the settings, or render metrics: nothing depends on them yet, or any more.
LEFT_OUT = ("host_topology.py", "settings.py", "metrics.py", "debug.py", "hints.py", "device_locality.py")


def point(frame, event, argument):
    """The name of a place where the process can be killed; None elsewhere."""
    if event == "call":
        file = frame.f_code.co_filename
        if file.startswith(PACKAGES) and not file.endswith(LEFT_OUT):
            return f"{Path(file).stem}.{frame.f_code.co_qualname}"
    elif event in {"c_call", "c_return"}:
        when = "before" if event == "c_call" else "after"
        if argument.__module__ == "posix" and argument.__name__ in {"open", "write", "close", "unlink", "rename"}:
            return f"{when} {argument.__name__}"
        if argument.__name__ == "send":
            return f"{when} send"
    return None


class Child:
    """A process of the resource manager that dies at the n-th time it comes to a point."""

    def __init__(self, directory, *, dies_at=None):
        self.passed = directory / "points"
        self._ready, self._go = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._go)
                os.read(self._ready, 1)
                self._work(directory, dies_at)
            finally:
                os._exit(1)
        os.close(self._ready)

    def _work(self, directory, dies_at):
        seen = Counter()
        log = os.open(self.passed, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

        def follow(frame, event, argument):
            name = point(frame, event, argument)
            if name is None:
                return
            seen[name] += 1
            if dies_at is None:
                os.write(log, f"{name}\n".encode())
            elif dies_at == (name, seen[name]):
                os.kill(os.getpid(), SIGKILL)

        threading.setprofile(follow)
        sys.setprofile(follow)
        asyncio.run(process.run(settings_of(directory)))

    def start(self):
        """Let it work: the runtime listens."""
        os.close(self._go)

    def end(self):
        """Kill it if it lives."""
        if self.pid:
            os.kill(self.pid, SIGKILL)
            assert os.WTERMSIG(os.waitpid(self.pid, 0)[1]) == SIGKILL
            self.pid = 0


def settings_of(directory):
    env = {
        "POLICY": "topology-aware",
        "HOST_ROOT": str(directory / "host"),
        "STATE_DIR": str(directory / "state"),
        "NRI_SOCKET": str(directory / "nri.sock"),
        "METRICS_ADDR": "127.0.0.1:0",
        "USAGE_INTERVAL": "0s",
    }
    return read_settings(ResourcesSettings, env)


class Runtime(FakeNriRuntime):
    """Goes on without its plugin; sees that no CPU is exclusive twice after each reply."""

    def __init__(self):
        super().__init__(request_timeout_s=20)
        self.has_plugin = False
        #: Containers that a request was about when the plugin went.
        self.in_flight = set()

    async def _call(self, method, request, reply_type):
        if not self.has_plugin and method not in {"Configure", "Synchronize"}:
            return reply_type()
        try:
            return await super()._call(method, request, reply_type)
        except (ConnectionError, TtrpcError):
            if method in {"Configure", "Synchronize"}:
                raise
            self.has_plugin = False
            self.in_flight = {request.container.id} if hasattr(request, "container") else set()
            return reply_type()

    def _update(self, updates):
        super()._update(updates)
        self.check()

    def present(self):
        return {name: each for name, each in self.containers.items() if each.state != nri.CONTAINER_STOPPED}

    def cpus(self):
        return {name: IdSet.parse(each.linux.resources.cpu.cpus) for name, each in self.present().items()}

    def exclusive(self):
        """The exclusive CPUs by container: a Guaranteed one has as many as it requests."""
        return {
            name: cpus
            for name, cpus in self.cpus().items()
            if name in GUARANTEED and len(cpus) == requested(self.containers[name])
        }

    def check(self):
        taken = [cpu for cpus in self.exclusive().values() for cpu in cpus]
        assert len(taken) == len(set(taken)), f"exclusive twice: {self.exclusive()}"


GUARANTEED = ("g0", "g1", "g2")


def requested(container):
    return round(container.linux.resources.cpu.shares.value / 1024)


def pod(name):
    parent = "/kubepods/" if name in GUARANTEED else "/kubepods/burstable/"
    found = nri.PodSandbox(id=f"pod-{name}", name=name, uid=f"uid-{name}", namespace="default")
    found.linux.cgroup_parent = f"{parent}pod{name}"
    return found


def container(name, shares, state=nri.CONTAINER_CREATED):
    found = nri.Container(id=name, pod_sandbox_id=f"pod-{name}", name="main", state=state)
    found.linux.resources.cpu.shares.value = shares
    return found


async def run(runtime, name, shares):
    await runtime.run_pod(pod(name))
    await runtime.create_container(container(name, shares))
    await runtime.start_container(name)


async def resize(runtime, name, shares):
    resources = nri.LinuxResources()
    resources.cpu.shares.value = shares
    await runtime.update_container(name, resources)


async def end(runtime, name):
    await runtime.stop_container(name)
    await runtime.remove_container(name)
    await runtime.stop_pod(f"pod-{name}")
    await runtime.remove_pod(f"pod-{name}")


#: What happens on the node, beside the two containers that are there from the start.
STEPS = (
    lambda runtime: run(runtime, "g1", 2048),
    lambda runtime: run(runtime, "b1", 512),
    lambda runtime: resize(runtime, "g1", 1024),
    lambda runtime: end(runtime, "g0"),
    lambda runtime: run(runtime, "g2", 2048),
    lambda runtime: resize(runtime, "b0", 256),
)


@asynccontextmanager
async def successor(directory, runtime):
    """The next process, in the process of the test, once nothing is left to be updated."""
    started = asyncio.get_running_loop().create_future()
    working = asyncio.create_task(
        process.run(settings_of(directory), on_start=lambda app, manager: started.set_result((app, manager)))
    )
    await asyncio.wait({working, started}, return_when=asyncio.FIRST_COMPLETED)
    app, manager = await started
    try:
        await runtime.registered()
        runtime.has_plugin = True
        await settled(manager)
        yield manager
    finally:
        runtime.has_plugin = False
        app.stop()
        await working


async def settled(manager):
    async with asyncio.timeout(20):
        while manager.engine.ledger.pending:  # noqa: ASYNC110 - a plain value
            await asyncio.sleep(0.005)


def check_all(runtime):
    """Every Guaranteed container has CPUs of its own, and no other one runs there."""
    runtime.check()
    exclusive = runtime.exclusive()
    assert exclusive.keys() == set(GUARANTEED) & runtime.present().keys()
    for name, cpus in runtime.cpus().items():
        assert cpus
        for other, own in exclusive.items():
            assert name == other or cpus.isdisjoint(own), f"{name} runs on CPUs of {other}"


async def trial(directory, child, *, at_once):
    """Let everything happen, with a process that may die; return whether it did."""
    runtime = Runtime()
    for name, shares in (("g0", 1024), ("b0", 512)):
        runtime.pods[f"pod-{name}"] = pod(name)
        runtime.containers[name] = container(name, shares, nri.CONTAINER_RUNNING)
    steps = list(STEPS)
    async with runtime.listening(directory / "nri.sock"):
        try:
            child.start()
            await until_registered(runtime, child)
            while steps and (runtime.has_plugin or not at_once):
                await steps.pop(0)(runtime)
            died = not runtime.has_plugin
        finally:
            child.end()  # the thread that waits for its end, too
        runtime.has_plugin = False
        before = {name: cpus for name, cpus in runtime.exclusive().items() if name not in runtime.in_flight}
        async with successor(directory, runtime) as manager:
            kept = runtime.exclusive()
            assert before.items() <= kept.items(), "a grant that is still valid was not kept"
            check_all(runtime)
            for step in steps:
                await step(runtime)
            await settled(manager)
            check_all(runtime)
        runtime.updates.clear()
        async with successor(directory, runtime):
            assert runtime.updates == [], "a restart changes something"
    return died


async def until_registered(runtime, child):
    """Wait until the process is registered, or dead."""
    registering = asyncio.create_task(runtime.registered())
    ended = asyncio.create_task(asyncio.to_thread(os.waitid, os.P_PID, child.pid, os.WEXITED | os.WNOWAIT))
    await asyncio.wait({registering, ended}, return_when=asyncio.FIRST_COMPLETED)
    if registering.done() and registering.exception() is None:
        runtime.has_plugin = True
    else:
        registering.cancel()
        await asyncio.gather(registering, return_exceptions=True)
        await runtime.disconnect()


def killed(directory, dies_at=None, *, at_once=True):
    """Run a trial on a new node; return whether the process died, and the points that it came to if it did not."""
    directory.mkdir()
    put_host(directory / "host", MachineShape(packages=2, cores_per_node=4).topology())
    child = Child(directory, dies_at=dies_at)
    died = asyncio.run(trial(directory, child, at_once=at_once))
    return died, Counter(child.passed.read_text().splitlines())


def campaign(directory, choose):
    """Kill a process at each of the points that are chosen of those that a whole life comes to."""
    died, points = killed(directory / "alive")
    assert not died
    chosen = choose(points)
    deaths = 0
    for number, dies_at in enumerate(chosen):
        name = f"{number}: {dies_at}"
        try:
            died, _ = killed(directory / str(number), dies_at, at_once=number % 2 == 0)
        except BaseException as error:
            error.add_note(f"the process was killed at {name}")
            raise
        deaths += died
    # A few points are passed as often only where threads and sockets happen to be as fast as they were.
    assert deaths >= 0.8 * len(chosen)


def everywhere(points):
    """The first, the middle and the last time at each point."""
    return sorted({(name, time) for name, times in points.items() for time in (1, (times + 1) // 2, times)})


def some(points):
    """All kinds of system calls at several times, and a sample of everything else."""
    chosen = everywhere(points)
    calls = [each for each in chosen if each[0].startswith(("before ", "after ")) and "open" not in each[0]]
    return [*calls[::2], *random.Random(9).sample(sorted(set(chosen) - set(calls)), 20)]


@pytest.mark.timeout(400)  # dozens of trials, one after another, each with a process of its own
def test_a_process_killed_at_some_points_keeps_valid_grants_and_no_cpu_is_exclusive_twice(tmp_path):
    campaign(tmp_path, some)


@pytest.mark.soak
def test_a_process_killed_at_every_point_keeps_valid_grants_and_no_cpu_is_exclusive_twice(tmp_path):
    campaign(tmp_path, everywhere)
