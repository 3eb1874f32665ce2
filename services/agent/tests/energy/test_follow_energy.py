"""Energy by pod from scripted counters, over wraps, restarts and pods that come and go."""

import math
import random
import re
from dataclasses import replace

import pytest

from joulie_agent.energy.cgroups import NoCgroups
from joulie_agent.energy.counters import HostCounters
from joulie_agent.energy.follow import INTERVAL_S, MOST_WORKLOADS, EnergyFollower, EnergySource, EnergySources
from joulie_agent.energy.metrics import energy_families
from joulie_agent.energy.receipts import Receipts, ReceiptSources
from joulie_core.attribution.cpu_times import CpuTimes
from joulie_core.attribution.energy import EnergyKind
from joulie_core.attribution.packages import ZoneCounter
from joulie_core.attribution.sums import OTHER, PodOwner
from joulie_core.attribution.totals import EnergyPart, MeteredDevice
from joulie_core.control.energy_meter import EnergyCounter
from joulie_core.demand import WorkloadClass
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import view_from_status
from joulie_core.held_as import HeldAs
from joulie_core.holders.held import HeldDevice, Holder
from joulie_core.holders.records import HolderReason, NodePod
from joulie_core.kinds.node_hardware import CpuHardware, NodeHardwareStatus
from joulie_core.power.curves import node_curves

STATUS = NodeHardwareStatus(cpu=CpuHardware(raw_model="AMD EPYC 7763 64-Core Processor", sockets=2, total_cores=128))
CURVES = node_curves(view_from_status(STATUS, Inventory.load()))
RANGE_UJ = 65_532_610_987
ZONES = ("package-0", "package-1")
CPU, GPU = MeteredDevice.CPU, MeteredDevice.GPU


def pod(name, workload=None) -> NodePod:
    uid = f"uid-{name}"
    workload = workload or f"deployment/{name}"
    return NodePod("team", name, uid, True, WorkloadClass.STANDARD, workload=workload, cgroup_uid=uid)


def held(gpu, *pods) -> HeldDevice:
    """Return a GPU that pods hold; None among them is one that is not certain."""
    holders = tuple(Holder("team", name or "?", "main", None, f"uid-{name}" if name else "") for name in pods)
    return HeldDevice(gpu, 0, HeldAs.STANDARD, HolderReason.ALL_STANDARD, "", holders, complete=True)


class Machine:
    """A node of two packages and GPUs, whose counters a test moves; its clock is the event loop's."""

    def __init__(self):
        self.joules = dict.fromkeys(ZONES, 0.0)
        self.gpu_mj = {}
        self.node_seconds = 0.0
        self.seconds = {}
        self.pods = {}
        self.held = ()
        self.curves = CURVES
        self.no_cgroups = None
        self.now = 1000.0
        self.events = []
        self.restart()

    def restart(self):
        """Start the agent again."""
        sources = EnergySources(self.counters, self.times, lambda: self.pods, lambda: self.curves)
        receipts = Receipts(ReceiptSources(list, lambda: self.now, self.events.append))
        self.follower = EnergyFollower(sources, lambda: self.now, receipts=receipts)

    async def counters(self):
        zones = {
            zone: None
            if joules is None
            else ZoneCounter(int(joules * 1e6) % RANGE_UJ, EnergyCounter(RANGE_UJ, max_watts=280.0))
            for zone, joules in self.joules.items()
        }
        return HostCounters(self.now, zones, dict(self.gpu_mj))

    def times(self):
        return self.no_cgroups or CpuTimes(self.node_seconds, dict(self.seconds))

    def start(self, name, **kinds):
        self.pods = {**(self.pods or {}), f"team/{name}": pod(name, **kinds)}
        self.seconds[f"uid-{name}"] = 0.0

    def end(self, name):
        del self.pods[f"team/{name}"], self.seconds[f"uid-{name}"]

    def run(self, seconds=INTERVAL_S, *, watts=100.0, gpu_watts=300.0, cpus=1.0):
        """Let time go by: each pod uses `cpus` CPUs, and the holders of GPUs are looked at each second."""
        for uid in self.seconds:
            self.seconds[uid] += cpus * seconds
        self.node_seconds += cpus * seconds * (len(self.seconds) + 1)
        for zone in ZONES:
            self.joules[zone] += watts * seconds
        for gpu in self.gpu_mj:
            self.gpu_mj[gpu] += int(gpu_watts * seconds * 1000)
        for _ in range(int(seconds)):
            self.now += 1.0
            self.follower.looked(self.held)

    async def read(self, times=1, **how):
        for _ in range(times):
            self.run(**how)
            await self.follower.read()

    def parts(self, kind):
        return self.follower.totals[kind].parts

    def of(self, kind, workload, energy=EnergyKind.ALLOCATED):
        return self.follower.totals[kind].workloads[PodOwner("team", workload), energy]


@pytest.fixture
async def machine():
    return Machine()


async def test_a_node_without_pods_has_idle_and_unattributed_energy_alone(machine):
    await machine.read(4)
    parts = machine.parts(CPU)
    assert parts[EnergyPart.PODS] == 0.0
    assert math.fsum(parts.values()) == pytest.approx(3 * 2000.0)
    assert machine.follower.missing == {}


async def test_a_pod_has_bounds_around_its_point_and_the_sum_is_the_counters(machine):
    machine.start("web")
    await machine.read(11, watts=150.0, cpus=20.0)
    web = machine.of(CPU, "deployment/web")
    assert 0.0 < web.lower_joules < web.joules < web.upper_joules
    assert math.fsum(machine.parts(CPU).values()) == pytest.approx(10 * 3000.0)


async def test_what_a_pod_used_that_ended_within_an_interval_is_unattributed(machine):
    machine.start("web")
    await machine.read(2, watts=150.0, cpus=20.0)
    before = machine.of(CPU, "deployment/web").joules
    machine.run(watts=150.0, cpus=20.0)
    machine.end("web")
    await machine.follower.read()
    assert machine.of(CPU, "deployment/web").joules == before
    assert math.fsum(machine.parts(CPU).values()) == pytest.approx(2 * 3000.0)


async def test_the_sum_is_the_counters_over_wraps_gaps_and_pods_that_come_and_go(machine):
    rng = random.Random(1)
    machine.gpu_mj = {"gpu-0": 5, "gpu-1": 7}
    await machine.read()
    counted = dict.fromkeys((CPU, GPU), 0.0)
    for step in range(400):
        alive = [key.removeprefix("team/") for key in machine.pods]
        if rng.random() < 0.4 or not alive:
            machine.start(f"p{step}", workload=f"job/{step % 7}")
        elif rng.random() < 0.5:
            machine.end(rng.choice(alive))
        alive = [key.removeprefix("team/") for key in machine.pods]
        machine.held = (held("gpu-0", *alive[:1]), held("gpu-1", *(alive[:2] if rng.random() < 0.9 else [None])))
        seconds = INTERVAL_S if rng.random() < 0.95 else 40.0
        watts = rng.uniform(60.0, 250.0) if seconds == INTERVAL_S else 100.0
        counted[CPU] += 2 * watts * seconds
        counted[GPU] += 2 * 300.0 * seconds
        await machine.read(seconds=seconds, watts=watts, cpus=rng.uniform(0.5, 8.0))
    # The interval of the GPUs that ended last but one waits for the looks after it.
    await machine.read(2, watts=0.0, gpu_watts=0.0)
    assert machine.joules["package-0"] * 1e6 > 5 * RANGE_UJ
    for kind in (CPU, GPU):
        parts = machine.parts(kind)
        assert math.fsum(parts.values()) == pytest.approx(counted[kind], rel=0.005)
        assert min(parts.values()) > 0.0
    assert machine.follower.totals[GPU].unknown_seconds == 0.0


async def test_pods_that_draw_unlike_watts_at_equal_cpu_time_are_told_apart_after_some_minutes(machine):
    """The points alone; without the fit both have the same."""
    rng = random.Random(2)
    machine.start("light")
    machine.start("heavy")
    true = {"light": 0.0, "heavy": 0.0}
    watts = {"light": 1.0, "heavy": 4.0}
    idle = CURVES.packages_watts[0]
    await machine.read(2, watts=idle / len(ZONES), cpus=0.0)

    async def go(steps):
        for _ in range(steps):
            used = {name: rng.uniform(0.0, 40.0) for name in watts}
            for name, cpus in used.items():
                machine.seconds[f"uid-{name}"] += cpus * INTERVAL_S
                machine.node_seconds += cpus * INTERVAL_S
                true[name] += watts[name] * cpus * INTERVAL_S
            drawn = idle + sum(watts[name] * cpus for name, cpus in used.items())
            await machine.read(watts=drawn / len(ZONES), cpus=0.0)

    def points():
        return {name: machine.of(CPU, f"deployment/{name}").joules for name in watts}

    await go(29)
    assert points()["heavy"] / points()["light"] < 2.0
    before, true_before = points(), dict(true)
    await go(31)
    later = {name: points()[name] - before[name] for name in watts}
    drew = {name: true[name] - true_before[name] for name in watts}
    assert later["heavy"] / later["light"] > 2.5
    assert later["heavy"] == pytest.approx(drew["heavy"], rel=0.3)


async def test_a_driver_that_is_loaded_again_counts_nothing_and_its_seconds_are_told(machine):
    machine.gpu_mj = {"gpu-0": 10_000_000_000}
    machine.held = (held("gpu-0"),)
    await machine.read(3)
    machine.gpu_mj = {"gpu-0": 0}
    await machine.read(5)
    totals = machine.follower.totals[GPU]
    assert totals.unknown_seconds == INTERVAL_S
    # Eight readings are seven intervals, of which one is not told and one waits.
    assert math.fsum(totals.parts.values()) == pytest.approx(5 * 3000.0)


async def test_an_agent_that_starts_again_counts_from_there(machine):
    machine.start("web")
    await machine.read(5, watts=150.0, cpus=20.0)
    machine.restart()
    assert math.fsum(machine.parts(CPU).values()) == 0.0
    await machine.read(3, watts=150.0, cpus=20.0)
    assert math.fsum(machine.parts(CPU).values()) == pytest.approx(2 * 3000.0)


async def test_a_gpu_of_one_pod_is_measured(machine):
    machine.gpu_mj = {"gpu-0": 0}
    machine.start("train", workload="job/train")
    machine.held = (held("gpu-0", "train"),)
    await machine.read(6)
    train = machine.of(GPU, "job/train", EnergyKind.MEASURED)
    # The first interval began before the first look.
    assert (train.lower_joules, train.joules, train.upper_joules) == (12_000.0, 12_000.0, 12_000.0)


async def test_a_hand_over_between_two_pods_is_allocated_and_never_measured(machine):
    machine.gpu_mj = {"gpu-0": 0}
    machine.start("first")
    machine.start("next")
    machine.held = (held("gpu-0", "first"),)
    await machine.read(4)
    machine.held = (held("gpu-0", "next"),)
    await machine.read(6)
    kinds = {
        (owner.workload, kind): each.joules for (owner, kind), each in machine.follower.totals[GPU].workloads.items()
    }
    assert kinds["deployment/first", EnergyKind.ALLOCATED] > 0.0
    assert kinds["deployment/next", EnergyKind.ALLOCATED] > 0.0
    # 27 kJ in nine intervals, of which one waits and at least two are the hand-over's.
    assert kinds["deployment/first", EnergyKind.MEASURED] <= 9_000.0
    assert kinds["deployment/next", EnergyKind.MEASURED] <= 15_000.0


async def test_a_gpu_whose_holders_are_not_certain_is_unattributed_and_the_source_missing(machine):
    machine.gpu_mj = {"gpu-0": 0}
    machine.held = (held("gpu-0", None),)
    await machine.read(6)
    assert machine.parts(GPU) == {EnergyPart.PODS: 0.0, EnergyPart.IDLE: 0.0, EnergyPart.UNATTRIBUTED: 12_000.0}
    assert set(machine.follower.missing) == {EnergySource.HOLDERS}


async def test_without_the_nodes_cgroups_all_over_idle_is_unattributed_and_the_reason_is_there(machine):
    machine.no_cgroups = NoCgroups("not mounted")
    machine.start("web")
    await machine.read(3)
    assert machine.parts(CPU)[EnergyPart.PODS] == 0.0
    assert machine.parts(CPU)[EnergyPart.UNATTRIBUTED] > 0.0
    assert machine.follower.missing == {EnergySource.CPU_TIME: "not mounted"}


async def test_sources_that_are_missing_are_told_and_nothing_is_stated_from_them(machine):
    machine.joules = {"package-0": None}
    machine.run = lambda **_: None
    machine.gpu_mj = {"gpu-0": None}
    machine.pods = machine.curves = None
    await machine.follower.read()
    machine.now += 10.0
    await machine.follower.read()
    assert set(machine.follower.missing) == set(EnergySource) - {EnergySource.CPU_TIME}
    assert math.fsum(machine.parts(CPU).values()) == 0.0
    assert machine.follower.totals[CPU].unknown_seconds == 10.0


async def test_a_pod_that_is_not_known_is_other_and_series_are_bounded(machine):
    for number in range(MOST_WORKLOADS + 20):
        machine.start(f"p{number}")
    machine.seconds["uid-stranger"] = 0.0
    await machine.read(3, watts=250.0, cpus=0.5)
    owners = {owner for owner, _ in machine.follower.totals[CPU].workloads}
    assert len(owners) == MOST_WORKLOADS + 1
    assert OTHER in owners


async def test_the_series_have_the_sums_with_their_labels(machine):
    machine.start("web")
    await machine.read(4, watts=150.0, cpus=20.0)
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in energy_families("n1", machine.follower)
        for sample in family.samples
    }
    labels = (
        ("device", "cpu"),
        ("kind", "allocated"),
        ("namespace", "team"),
        ("node", "n1"),
        ("workload", "deployment/web"),
    )
    web = machine.of(CPU, "deployment/web")
    assert samples["joulie_workload_energy_joules_total", *labels] == web.joules
    assert samples["joulie_workload_energy_lower_joules_total", *labels] == web.lower_joules
    assert samples["joulie_workload_energy_upper_joules_total", *labels] == web.upper_joules
    parts = [value for (name, *_), value in samples.items() if name == "joulie_node_energy_joules_total"]
    assert math.fsum(parts) == pytest.approx(3 * 3000.0)
    unknown = (("device", "cpu"), ("node", "n1"))
    assert samples["joulie_node_energy_unknown_seconds_total", *unknown] == 0.0
    assert samples["joulie_energy_source_available", ("node", "n1"), ("source", "cpu_time")] == 1.0


def figures(message, device):
    """Return the joules of a receipt by kind, as point and bounds."""
    found = re.findall(rf"{device} ([0-9.]+) J \(([0-9.]+) to ([0-9.]+) J\), (\w+)", message)
    return {kind: tuple(map(float, joules)) for *joules, kind in found}


async def test_the_receipt_of_a_pod_is_the_energy_of_its_workload_on_cpus_and_gpus(machine):
    machine.gpu_mj["GPU-0"] = 0
    await machine.read(4)
    machine.start("web")
    machine.held = (held("GPU-0", "web"),)
    await machine.read(10, watts=150.0, cpus=20.0)
    machine.end("web")
    machine.held = (held("GPU-0"),)
    await machine.read(10)

    (event,) = machine.events
    assert (event.namespace, event.pod, event.pod_uid, event.is_warning) == ("team", "web", "uid-web", False)
    for device, kind in ((CPU, "CPU"), (GPU, "GPU")):
        of_workload = {
            energy: (sums.joules, sums.lower_joules, sums.upper_joules)
            for (owner, energy), sums in machine.follower.totals[device].workloads.items()
            if owner == PodOwner("team", "deployment/web")
        }
        assert figures(event.message, kind) == {key: pytest.approx(of_workload[key], abs=0.06) for key in of_workload}
        assert of_workload
    await machine.read(10)
    assert len(machine.events) == 1


async def test_an_agent_that_starts_again_repeats_no_receipt_and_makes_up_none(machine):
    machine.start("old")
    machine.start("web")
    await machine.read(4, cpus=2.0)
    machine.end("old")
    await machine.read(8, cpus=2.0)
    assert [event.pod for event in machine.events] == ["old"]

    machine.pods = {**machine.pods, "team/old": replace(pod("old"), active=False)}
    machine.restart()
    await machine.read(4, cpus=2.0)
    machine.end("web")
    await machine.read(8)

    assert [event.pod for event in machine.events] == ["old", "web"]
    assert "Since " in machine.events[1].message
    assert figures(machine.events[1].message, "CPU")["allocated"][2] <= 4 * 10 * 200.0
