"""Any interleaving of caps, throttles, CPU classes, restores, kills and what others do, on the machine in this process.

The journal's own state machine (`tests/hardware/test_restore_state_machine.py`) samples one control at every step; here
the whole CPU subsystem acts on a /sys with the kernel's semantics, requests and registers alike, and dies before or
after any system call. After each restore the machine tells what was really written.
"""

import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from msgspec import structs

from joulie_actuator.cpu_class_protocol import CoreFrequencyLimit, CpuClassControls, Governor
from joulie_actuator.cpus import CpuHandler
from joulie_actuator.hardware import journal as journal_module
from joulie_actuator.hardware.journal import Journal
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.protocol import LeaseKind, SetCoreLimits, SetCpuCap, SetCpuClasses, SetCpuTuning, SetThrottle
from joulie_testing.agent.kernel import Behaviour, KernelMachine, KernelTree, OfflinePolicy, PolicyReturn
from joulie_testing.agent.kernel.external_writers import ExternalWriters, register_of
from joulie_testing.agent.kill_points import Fate, Killed
from joulie_testing.agent.machine_spec import PLATFORMS

#: Journals are written here; on a disk each would wait for it.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
THROTTLED_KHZ = 2_000_000
TABLE_KHZ = (1_000_000, 1_200_000, 1_500_000, 2_000_000, 2_500_000, 3_000_000, 3_900_000)
SMALL = PLATFORMS["xeon-small"]
SPECS = {
    "intel_pstate": SMALL,
    "acpi-cpufreq": replace(
        SMALL, driver="acpi-cpufreq", governor="schedutil", base_khz=None, frequencies_khz=TABLE_KHZ
    ),
}
#: What external writers ask for: in the table, and never what we write.
EXTERNAL_KHZ = st.sampled_from([1_000_000, 1_200_000, 2_500_000, 3_000_000, 3_900_000])
POLICIES = st.sampled_from([f"policy{number}" for number in range(8)])
#: CPUs per class: whole cores, single threads, and all of a package.
MEMBERS = st.sampled_from(["0,4", "1-3", "2-3,6-7", "0-7", "5"])
CLASSES = st.sampled_from(
    [
        CpuClassControls(cpus="", max_khz=2_000_000, epp="power", disabled_idle_states=("C6",)),
        CpuClassControls(cpus="", max_khz=1_500_000, governor=Governor.POWERSAVE),
        CpuClassControls(cpus="", min_khz=2_500_000, governor=Governor.PERFORMANCE),
        CpuClassControls(cpus="", min_khz=1_500_000, max_khz=1_500_000, epp="performance"),
        CpuClassControls(cpus="", disabled_idle_states=("C1", "C6")),
    ]
)
#: A kill at the n-th system call that changes something.
KILLS = st.none() | st.none() | st.integers(min_value=1, max_value=40)


class MortalOs:
    """`os` for the journal: the process may die before and after each call that changes the disk."""

    def __init__(self, fate):
        self._fate = fate

    def __getattr__(self, name):
        call = getattr(os, name)
        if name not in {"write", "replace", "fsync"}:
            return call

        def mortal(*args, **kwargs):
            self._fate.step()
            result = call(*args, **kwargs)
            self._fate.step()
            return result

        return mortal


class MortalTree(KernelTree):
    """The process may die before and after each write."""

    def __init__(self, machine, fate):
        super().__init__(machine)
        self._fate = fate

    def write_text(self, path, text):
        self._fate.step()
        failure = super().write_text(path, text)
        self._fate.step()
        return failure


class RestoreMachine(RuleBasedStateMachine):
    driver = "intel_pstate"

    @initialize(policy_return=st.sampled_from(PolicyReturn), offline=st.sampled_from(OfflinePolicy))
    def begin(self, policy_return, offline):
        if offline is OfflinePolicy.REMOVED:  # a policy that was removed is made anew
            policy_return = PolicyReturn.DEFAULTS
        self.directory = Path(tempfile.mkdtemp(dir=MEMORY))
        self.fate, self.patch = Fate(), pytest.MonkeyPatch()
        self.patch.setattr(journal_module, "os", MortalOs(self.fate))
        spec = SPECS[self.driver]
        self.machine = KernelMachine(
            spec, Behaviour(policy_return=policy_return, offline_policy=offline), clock=lambda: 0.0
        )
        self.machine.write_proc(self.directory)
        self.external_writers = ExternalWriters(
            self.machine, {cpu.number: cpu.package for cpu in spec.cpus()}, policy_return
        )
        self.journal = None
        self.start()

    @precondition(lambda self: self.journal is None)
    @rule()
    def start(self):
        self.journal = Journal.open(self.directory / "state")
        self.handler = CpuHandler(
            tree=MortalTree(self.machine, self.fate),
            proc_root=str(self.directory),
            writer=JournaledWriter(self.journal),
            min_freq_khz=THROTTLED_KHZ,
            clock=lambda: 0.0,
        )

    @precondition(lambda self: self.journal is not None)
    @rule(watts=st.sampled_from([60, 80, 100, 150]), kill=KILLS)
    def cap(self, watts, kill):
        self.act(SetCpuCap(cap_watts_per_package=watts, lease_s=60), kill)

    @precondition(lambda self: self.journal is not None)
    @rule(pct=st.sampled_from([100, 100, 50, 0]), kill=KILLS)
    def throttle(self, pct, kill):
        self.external_writers.about_to_throttle()
        if self.act(SetThrottle(throttle_pct=pct, lease_s=60), kill):
            self.external_writers.has_looked()

    @precondition(lambda self: self.journal is not None)
    @rule(controls=CLASSES, cpus=MEMBERS, kill=KILLS)
    def classify(self, controls, cpus, kill):
        self.external_writers.about_to_throttle()
        classes = {"a": structs.replace(controls, cpus=cpus)}
        self.act(SetCpuClasses(classes=classes, lease_s=60), kill)

    @precondition(lambda self: self.journal is not None)
    @rule(khz=st.sampled_from([1_500_000, 2_000_000, None]), cpus=MEMBERS, kill=KILLS)
    def limit_cores(self, khz, cpus, kill):
        self.external_writers.about_to_throttle()
        limits = () if khz is None else (CoreFrequencyLimit(cpus=cpus, max_khz=khz),)
        self.act(SetCoreLimits(limits=limits, lease_s=60), kill)

    @precondition(lambda self: self.journal is not None and self.driver == "intel_pstate")
    @rule(epp=st.sampled_from([None, "balance_power"]), kill=KILLS)
    def tune(self, epp, kill):
        self.act(SetCpuTuning(epp=epp, uncore_max_khz=None, lease_s=60), kill)

    @precondition(lambda self: self.journal is not None)
    @rule(kill=KILLS)
    def end_all_but_classes(self, kill):
        """Caps and throttles of the machine's policies end; those that a class limits keep its limit."""
        self.external_writers.story.append(f"all but classes end, killed at {kill}")
        with self.mortal(kill):
            self.handler.keep(frozenset({LeaseKind.CLASSES}))
            assert not any(key.startswith("rapl/") for key in self.managed_and_reachable())

    @precondition(lambda self: self.journal is not None)
    @rule(kill=KILLS)
    def end_classes(self, kill):
        self.external_writers.story.append(f"classes end, killed at {kill}")
        with self.mortal(kill):
            self.handler.keep(frozenset({LeaseKind.POWER}))
            ends = ("/scaling_min_freq", "/scaling_governor", "/C1", "/C6")
            assert not [key for key in self.managed_and_reachable() if key.endswith(ends)]

    def managed_and_reachable(self):
        gone = self.external_writers.out_of_reach()
        return [key for key in self.journal.entries if register_of(key) not in gone]

    @precondition(lambda self: self.driver == "intel_pstate")
    @rule(policy=POLICIES, word=st.sampled_from(["64", "200", "balance_performance"]))
    def prefer(self, policy, word):
        if policy not in self.external_writers.out_of_reach():
            self.external_writers.prefer(policy, word)

    @rule(cpu=st.integers(0, 7))
    def enable_an_idle_state(self, cpu):
        self.external_writers.enable_idle_state(cpu, 2, "C6")

    @precondition(lambda self: self.journal is not None)
    @rule(kill=KILLS)
    def restore(self, kill):
        with self.mortal(kill):
            self.handler.restore(self.handler.writer.managed)
            self.check()

    @rule(policy=POLICIES, khz=EXTERNAL_KHZ)
    def ask_for_a_frequency(self, policy, khz):
        if policy not in self.external_writers.out_of_reach():
            self.external_writers.request(policy, khz)

    @rule(package=st.sampled_from([0, 1]), watts=st.sampled_from([41, 75, 121]))
    def set_a_power_limit(self, package, watts):
        if f"package-{package}" not in self.external_writers.vanished_zones():
            self.external_writers.set_power(f"package-{package}", watts)

    @rule(package=st.sampled_from([0, 1]), state=st.sampled_from([3, 2, 0]))
    def cool(self, package, state):
        self.external_writers.cool(package, state)

    @precondition(lambda self: self.driver == "acpi-cpufreq")
    @rule(policy=POLICIES, khz=st.sampled_from([None, 1_200_000, 1_500_000, 2_500_000]))
    def limit(self, policy, khz):
        self.external_writers.limit_policy(policy, khz)

    @rule(cpus=st.sampled_from([{1}, {5}, {3, 6}, {2, 3, 6, 7}]))
    def plug(self, cpus):
        if self.external_writers.offline:
            self.external_writers.start()
        else:
            self.external_writers.stop(cpus)

    @rule(seed=st.integers(min_value=0, max_value=9))
    def die_and_return_with_other_numbers(self, seed):
        self.bury()
        self.machine.renumber_zones(seed=seed)
        self.start()

    def act(self, request, kill):
        self.external_writers.story.append(f"{request}, killed at {kill}")
        with self.mortal(kill):
            self.handler.execute(request)
            return True
        return False

    def check(self):
        left = {register_of(key) for key in self.journal.entries}
        wrong = self.external_writers.settle(left)
        assert not wrong, "\n".join([str(wrong), *self.external_writers.story])
        assert left <= self.external_writers.out_of_reach(), "\n".join([str(left), *self.external_writers.story])

    @contextmanager
    def mortal(self, kill):
        try:
            with self.fate.killed_at(kill):
                yield
        except Killed:
            self.bury()

    def bury(self):
        if self.journal is not None:
            self.journal.close()
            self.journal = None

    def teardown(self):
        if not hasattr(self, "directory"):
            return
        try:
            self.bury()
            self.external_writers.start()
            self.start()
            self.handler.restore(self.handler.writer.managed)
            self.check()
            assert not self.journal.entries
        finally:
            self.bury()
            self.patch.undo()
            shutil.rmtree(self.directory)


class RestoreMachineWithTable(RestoreMachine):
    driver = "acpi-cpufreq"


@pytest.mark.parametrize("machine", [RestoreMachine, RestoreMachineWithTable], ids=sorted(SPECS, reverse=True))
def test_any_interleaving_on_a_kernels_sys_ends_with_the_newest_external_values(machine):
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
