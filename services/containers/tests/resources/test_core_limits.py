"""The limits that cores would have by class, on the files of an invented machine."""

import asyncio
from dataclasses import replace

import pytest

from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_containers.resources.core_limits import MOST_COUNTED_S, CoreLimits, core_holders
from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown
from joulie_core.class_caps.core_limits import CoreHolder, CoreLimitReason
from joulie_core.class_caps.pod_consent import PodConsent, stated_consent
from joulie_core.containers.container import ContainerId
from joulie_core.containers.idset import EMPTY, Cpus
from joulie_core.containers.policy import Placement
from joulie_core.labels import MAX_SLOWDOWN, WORKLOAD_CLASS
from joulie_testing.agent.host_files import put_host
from joulie_testing.core.containers import container
from joulie_testing.core.machines import MachineShape

STANDARD = {WORKLOAD_CLASS: "standard", MAX_SLOWDOWN: "25%"}
PERFORMANCE = {WORKLOAD_CLASS: "performance"}
SHAPE = MachineShape(cores_per_node=4, threads_per_core=2)
"""Core n has the threads n and n + 4, each with a frequency policy of its own, from 0.8 to 3.5 GHz."""


class Machine:
    def __init__(self, root, shape=SHAPE):
        self.root, self.holders = root, []
        put_host(root, shape.topology())
        self.limits = CoreLimits(SysfsTree(root / "sys"), shape.topology(), lambda: tuple(self.holders))

    def give(self, cpus, annotations=None):
        consent = stated_consent(STANDARD if annotations is None else annotations)
        self.holders.append(CoreHolder(f"ns/{cpus}/main", Cpus.parse(cpus), consent))

    def write(self, cpu, file, khz):
        self._path(cpu, file).chmod(0o644)
        self.put(cpu, file, khz)

    def put(self, cpu, file, text):
        self._path(cpu, file).write_text(f"{text}\n")

    def _path(self, cpu, file):
        return self.root / f"sys/devices/system/cpu/cpufreq/policy{cpu}/{file}"

    async def reasons(self, now_s=0.0):
        await self.limits.step(now_s)
        return {str(each.cpus): each.reason for each in self.limits.state.limits}


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "host")


@pytest.fixture
def put(tmp_path):
    return lambda shape: Machine(tmp_path / "other", shape)


async def test_a_core_that_a_standard_container_has_alone_would_be_limited(machine):
    machine.give("1,5")
    assert await machine.reasons() == {
        "0,4": "Shared",
        "1,5": "FrequencyLimited",
        "2,6": "Shared",
        "3,7": "Shared",
    }
    limit = machine.limits.state.limits[1]
    assert (limit.limit_khz, limit.cores, limit.holders) == (2_800_000, 1, ("ns/1,5/main",))


async def test_a_core_of_which_a_container_has_one_thread_is_shared(machine):
    machine.give("1")
    assert (await machine.reasons())["1,5"] == "Shared"
    machine.give("5")
    assert (await machine.reasons())["1,5"] == "FrequencyLimited"
    machine.holders.pop()
    machine.give("5", PERFORMANCE)
    assert (await machine.reasons())["1,5"] == "NoSlowdownAllowed"


async def test_cores_of_one_frequency_policy_are_limited_together(machine):
    for cpu in (1, 2):
        for file in ("affected_cpus", "related_cpus"):
            machine.write(cpu, file, "1 2")
    machine.give("1,5")
    assert (await machine.reasons())["1-2,5-6"] == "Shared"
    machine.give("2,6")
    assert (await machine.reasons())["1-2,5-6"] == "FrequencyLimited"
    assert machine.limits.state.limits[1].cores == 2


async def test_a_core_that_may_run_no_faster_has_nothing_to_gain(machine):
    machine.give("1,5")
    for cpu in (1, 5):
        machine.write(cpu, "scaling_max_freq", 2_800_000)
    assert (await machine.reasons())["1,5"] == "NothingToGain"
    # Either thread makes the core run at its own.
    machine.write(5, "scaling_max_freq", 2_900_000)
    assert (await machine.reasons())["1,5"] == "FrequencyLimited"


async def test_a_limit_is_one_of_the_drivers_table_that_all_policies_of_the_group_have(machine):
    machine.give("1,5")
    machine.put(1, "scaling_available_frequencies", "3500000 3100000 3000000 1200000")
    machine.put(5, "scaling_available_frequencies", "3500000 3100000 2800000 1200000")
    await machine.reasons()
    assert machine.limits.state.limits[1].limit_khz == 3_100_000


async def test_the_highest_frequency_is_read_each_time(machine):
    machine.give("1,5")
    await machine.reasons()
    for cpu in (1, 5):
        machine.write(cpu, "cpuinfo_max_freq", 2_500_000)
        machine.write(cpu, "scaling_max_freq", 2_500_000)
    await machine.reasons()
    assert machine.limits.state.limits[1].limit_khz == 2_000_000


async def test_the_ceiling_of_a_group_that_is_limited_says_nothing_of_what_it_may_gain(machine):
    machine.give("1,5")
    machine.give("2,6")
    for cpu in (1, 5, 2, 6):
        machine.write(cpu, "scaling_max_freq", 2_800_000)
    await machine.limits.step(0.0, {Cpus.parse("1,5")})
    limited, other = machine.limits.state.limits[1:3]
    assert (limited.reason, limited.limit_khz) == ("FrequencyLimited", 2_800_000)
    assert limited.frequencies.ceiling_khz == limited.frequencies.highest_khz == 3_500_000
    assert (other.reason, other.limit_khz, other.frequencies.ceiling_khz) == ("NothingToGain", None, 2_800_000)
    assert (other.cores, other.holders) == (1, ("ns/2,6/main",))
    # One that cannot be read is unknown, limited or not.
    machine.write(5, "scaling_max_freq", "<unknown>")
    await machine.limits.step(1.0, {Cpus.parse("1,5")})
    assert machine.limits.state.limits[1].reason == "FrequencyUnknown"


async def test_a_group_without_a_limit_names_its_cores_and_holders(machine):
    assert machine.limits.state.limits == ()
    machine.give("1")
    await machine.reasons()
    shared = machine.limits.state.limits[1]
    assert (str(shared.cpus), shared.cores, shared.holders, shared.frequencies) == ("1,5", 1, ("ns/1/main",), None)


async def test_it_looks_every_quarter_of_a_minute_until_it_is_cancelled(machine, monkeypatch):
    waits, second = [], asyncio.Event()

    async def sleep(seconds, sleeps=asyncio.sleep):
        waits.append(seconds)
        if len(waits) == 2:
            second.set()
        await sleeps(0)

    monkeypatch.setattr("joulie_containers.resources.core_limits.asyncio.sleep", sleep)
    monkeypatch.setattr("joulie_containers.resources.core_limits.time.monotonic", lambda: 10.0 * len(waits))
    machine.give("1,5")
    running = asyncio.create_task(machine.limits.run())
    await asyncio.wait_for(second.wait(), 20.0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert waits[:2] == [15.0, 15.0]
    assert machine.limits.state.limited_core_s >= 10.0


@pytest.mark.parametrize("file", ["cpuinfo_max_freq", "scaling_max_freq"])
async def test_a_core_whose_frequency_cannot_be_read_is_unknown(machine, file):
    machine.give("1,5")
    machine.give("2,6")
    await machine.reasons()
    machine.write(5, file, "<unknown>")
    found = await machine.reasons()
    assert (found["1,5"], found["2,6"]) == ("FrequencyUnknown", "FrequencyLimited")


async def test_the_time_of_limited_cores_is_counted_but_no_time_that_was_not_seen(machine):
    machine.give("1-2,5-6")
    await machine.reasons(now_s=100.0)
    assert machine.limits.state.limited_core_s == 0.0
    await machine.reasons(now_s=110.0)
    assert machine.limits.state.limited_core_s == 20.0
    await machine.reasons(now_s=10_000.0)
    assert machine.limits.state.limited_core_s == 20.0 + 2 * MOST_COUNTED_S == 140.0
    machine.holders.clear()
    await machine.reasons(now_s=10_010.0)
    assert machine.limits.state.limited_core_s == 20.0 + 2 * MOST_COUNTED_S


async def test_what_the_containers_of_the_moment_allow_is_known_once_the_machine_was_read(machine):
    machine.give("1,5")
    machine.give("2,6", PERFORMANCE)
    machine.give("3")
    assert machine.limits.allowed() == {}
    await machine.reasons()
    assert machine.limits.allowed() == {Cpus.parse("1,5"): AllowedSlowdown.QUARTER}
    machine.holders.clear()
    assert machine.limits.allowed() == {}


async def test_hardware_that_has_changed_is_read_anew(machine):
    machine.give("1,5")
    await machine.reasons()
    fewer = replace(SHAPE, offline=Cpus.parse("5"))
    machine.limits.use_topology(fewer.topology())
    assert (await machine.reasons())["1"] is CoreLimitReason.FREQUENCY_LIMITED


async def test_a_machine_without_frequency_policies_has_no_limit(tmp_path):
    (tmp_path / "sys").mkdir()
    holder = CoreHolder("ns/pod/main", Cpus.parse("0,4"), stated_consent(STANDARD))
    limits = CoreLimits(SysfsTree(tmp_path / "sys"), SHAPE.topology(), lambda: (holder,))
    await limits.step(0.0)
    assert [each.reason for each in limits.state.limits] == ["FrequencyUnknown", "Shared", "Shared", "Shared"]


def test_holders_are_containers_with_cpus_alone():
    names = [ContainerId(name) for name in ("alone", "together")]
    containers = {name: container(name) for name in names}
    placements = {
        names[0]: Placement(zone="z", cpus=Cpus.parse("1-3"), exclusive=Cpus.parse("1-2")),
        names[1]: Placement(zone="z", cpus=Cpus.parse("3-4")),
    }
    consents = {containers[names[0]].pod.uid: PodConsent(consents=True)}

    def consent_of(pod):
        return consents[pod.uid]

    assert [
        (each.title, str(each.cpus), each.consent.consents) for each in core_holders(containers, placements, consent_of)
    ] == [(containers[names[0]].title, "1-2", True)]
    left_over = core_holders(containers, placements, consent_of, Cpus.parse("2-3"))
    assert [str(each.cpus) for each in left_over] == ["1"]
    assert core_holders(containers, placements, consent_of, Cpus.parse("1-2")) == ()
    # It may run on CPUs 1-2, too.
    placements[names[1]] = Placement(zone="z")
    assert core_holders(containers, placements, consent_of) == ()
    del placements[names[1]]
    assert core_holders(containers, placements, consent_of) == ()
    placements[names[1]] = Placement(zone="z", cpus=EMPTY)
    assert core_holders(containers, placements, consent_of) == ()
