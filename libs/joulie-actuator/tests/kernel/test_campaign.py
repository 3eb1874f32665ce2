"""The real commands on a mounted machine: killed at random, and interfered with by the platform and by other writers.

A campaign is a sequence of runs of one machine. In each run the actuator caps, throttles and sets CPU classes; external
writers, thermal and platform limits, CPU hotplug and renumbered zones come in between, and everything ends in one of
six ways: SIGKILL and `joulie-agent restore`, SIGKILL and the next start, SIGTERM, the leases, easing, or `restore`
through the actuator.
After each run the machine itself is checked, not the code under test: every control holds what a writer other than us
has put there last, and the exit code says whether that is so.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, replace

import pytest

from joulie_actuator import blocking_client
from joulie_actuator.cpu_class_protocol import CpuClassControls, Governor
from joulie_actuator.hardware import journal
from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.protocol import Restore, SetCpuCap, SetCpuClasses, SetThrottle, Subsystem
from joulie_actuator.replies import CpuClassesReport
from joulie_testing.agent.kernel import Behaviour, PolicyReturn
from joulie_testing.agent.kernel.external_writers import ExternalWriters, register_of
from joulie_testing.agent.kernel.mount import mounted, why_not
from joulie_testing.agent.machine_spec import PLATFORMS, MachineSpec

pytestmark = pytest.mark.skipif(bool(why_not()), reason=str(why_not()))

THROTTLED_KHZ = 2_000_000
FACTORY_WATTS = 150
SMALL = PLATFORMS["xeon-small"]
PACKAGES = {cpu.number: cpu.package for cpu in SMALL.cpus()}


@dataclass(frozen=True)
class Scene:
    """A machine, and the frequencies that external writers request: none of Joulie's, none that rounding changes."""

    spec: MachineSpec
    external_khz: tuple[int, ...]
    has_platform_limit: bool = False
    policy_return: PolicyReturn = PolicyReturn.REQUEST


SCENES = {
    "intel_pstate": Scene(SMALL, (1_100_000, 1_300_000, 2_700_000, 3_300_000)),
    "acpi-cpufreq": Scene(
        replace(
            SMALL,
            driver="acpi-cpufreq",
            governor="schedutil",
            base_khz=None,
            epp=False,
            highest_khz=3_500_000,
            frequencies_khz=(1_000_000, 1_200_000, 1_500_000, 2_000_000, 2_500_000, 3_000_000, 3_500_000),
        ),
        (1_000_000, 1_200_000, 2_500_000, 3_000_000),
        has_platform_limit=True,
        policy_return=PolicyReturn.DEFAULTS,
    ),
}

#: No external writer requests these values.
CLASSES = (
    {"eco": CpuClassControls(cpus="0-3", max_khz=THROTTLED_KHZ, disabled_idle_states=("C6",))},
    {
        "eco": CpuClassControls(cpus="1,5", min_khz=2_500_000, governor=Governor.PERFORMANCE),
        "fast": CpuClassControls(cpus="2-3,6-7", governor=Governor.POWERSAVE, disabled_idle_states=("POLL",)),
    },
    {},
)


class Actuator:
    """The process, and its log."""

    def __init__(self, env, log):
        self._log = log
        with log.open("wb") as out:
            command = [sys.executable, "-m", "joulie_actuator", "actuator"]
            self.process = subprocess.Popen(command, env=env, stdout=out, stderr=out)
        until(lambda: self.logged("listening") or self.process.poll() is not None)
        assert self.process.poll() is None, log.read_text()

    def logged(self, event):
        lines = self._log.read_text().splitlines()
        return any(line.startswith("{") and line.endswith("}") and json.loads(line)["event"] == event for line in lines)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def until(condition, timeout_s=60.0, tell=str):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"it never came true: {tell()}"
        time.sleep(0.01)


class Campaign:
    """A machine, the actuator on it, and everybody else."""

    def __init__(self, scene, there, directory, seed):
        self.scene = scene
        self.machine = there.machine
        self.external_writers = ExternalWriters(there.machine, PACKAGES, scene.policy_return)
        self.dice = random.Random(seed)
        self.state = directory / "state"
        self.log = directory / "actuator.log"
        self.env = os.environ | {
            "HOST_SYS_ROOT": str(there.sys),
            "HOST_PROC_ROOT": str(there.proc),
            "STATE_DIR": str(self.state),
            "ACTUATOR_SOCKET": str(directory / "socket"),
            # A busy machine needs more than a second to restore one that is mounted.
            "ACTUATOR_STOP_GRACE": "5",
            "DVFS_MIN_FREQ_KHZ": str(THROTTLED_KHZ),
        }
        self.actuator = None
        self.counts = Counter()

    # --- what the actuator does ---

    def start(self):
        if self.actuator is None:
            self.actuator = Actuator(self.env, self.log)

    def ask(self, request):
        return blocking_client.request(self.env["ACTUATOR_SOCKET"], request, 60)

    def request(self, lease_s=60.0):
        if self.dice.random() < 0.4:
            watts = self.dice.choice([60, 80, 100, 120, FACTORY_WATTS])
            return SetCpuCap(cap_watts_per_package=watts, lease_s=lease_s)
        if self.dice.random() < 0.4:
            return SetCpuClasses(classes=self.dice.choice(CLASSES), lease_s=lease_s)
        return SetThrottle(throttle_pct=self.dice.choice([0, 25, 50, 100, 100]), lease_s=lease_s)

    def control(self, lease_s=60.0):
        request = self.request(lease_s)
        self.external_writers.about_to_throttle()
        answer = self.ask(request)
        assert isinstance(answer, ControlOutcome | CpuClassesReport), answer
        self.external_writers.story.append(f"{request}: {answer}")
        self.counts["requests"] += 1
        if isinstance(request, SetThrottle):
            self.external_writers.has_looked()

    # --- what others do ---

    def interfere(self):
        what = [self.write_frequency, self.write_frequency, self.write_power, self.limit, self.limit, self.plug]
        self.dice.choice(what)()
        self.counts["interventions"] += 1

    def write_frequency(self):
        policy = self.dice.choice(sorted(set(self.external_writers.policies) - self.external_writers.out_of_reach()))
        self.external_writers.request(policy, self.dice.choice([*self.scene.external_khz, self.scene.spec.highest_khz]))

    def write_power(self):
        zone = self.dice.choice(sorted({"package-0", "package-1"} - self.external_writers.vanished_zones()))
        self.external_writers.set_power(zone, self.dice.choice([41, 55, 95, 121, 140]))

    def limit(self):
        """Let the thermal framework or the platform limit frequencies, or lift such a limit."""
        if self.scene.has_platform_limit and self.dice.random() < 0.5:
            khz = self.dice.choice([None, None, 1_200_000, 1_500_000, 2_500_000])
            self.external_writers.limit_policy(self.dice.choice(self.external_writers.policies), khz)
        else:
            self.external_writers.cool(self.dice.choice([0, 1]), self.dice.choice([0, 0, 1, 2, 3]))

    def plug(self):
        """Stop a CPU or a whole package, or start all that are stopped."""
        if self.external_writers.offline:
            self.external_writers.start()
        else:
            self.external_writers.stop(self.dice.choice([{1}, {5}, {3, 6}, {4, 7}, {2, 3, 6, 7}]))

    # --- how a run ends; each returns the exit code, None where the actuator goes on ---

    def kill(self):
        """Kill it at a random instant of a stream of requests."""
        requests = [self.request() for _ in range(100)]
        self.external_writers.about_to_throttle()
        stream = threading.Thread(target=lambda: [self.ask(each) for each in requests])
        stream.start()
        time.sleep(self.dice.uniform(0, 0.1))  # a random instant is what is wanted here
        self.actuator.kill()
        self.actuator = None
        stream.join()
        self.counts["kills"] += 1
        self.external_writers.story.append("killed")
        if self.dice.random() < 0.5:
            self.interfere()
        if self.dice.random() < 0.3:
            self.machine.renumber_zones(seed=self.dice.randrange(100))
            self.counts["renumberings"] += 1
            self.external_writers.story.append("zones have other numbers")

    def kill_and_restore(self):
        self.kill()
        return self.restore()

    def kill_and_start(self):
        self.kill()
        self.start()
        self.wait_for_restore()

    def terminate(self):
        code = self.actuator.end()
        self.actuator = None
        return code

    def let_the_lease_end(self):
        self.control(lease_s=0.05)
        for renewed in (SetThrottle(throttle_pct=50, lease_s=0.05), SetCpuClasses(classes=CLASSES[0], lease_s=0.05)):
            self.external_writers.about_to_throttle()
            assert self.ask(renewed)
        self.wait_for_restore()

    def ease(self):
        cap = SetCpuCap(cap_watts_per_package=FACTORY_WATTS, lease_s=60)
        for request in (cap, SetThrottle(throttle_pct=0, lease_s=60), Restore(subsystem=Subsystem.CPU)):
            assert self.ask(request)

    def restore(self):
        command = [sys.executable, "-m", "joulie_actuator", "restore"]
        return subprocess.run(command, env=self.env, capture_output=True, timeout=120, check=False).returncode

    def wait_for_restore(self):
        until(lambda: self.left() <= self.external_writers.out_of_reach(), tell=self.why)

    # --- what must be true ---

    def left(self):
        """Return the controls that the journal lists as managed."""
        return {register_of(key) for key in journal.peek(self.state / "cpu")}

    def why(self):
        return f"{self.left()} left of {self.machine.registers()}: {self.log.read_text()}"

    def check(self, how, code):
        left, gone = self.left(), self.external_writers.out_of_reach()
        wrong = self.external_writers.settle(left)
        story = "\n".join(self.external_writers.story[-40:])
        assert not wrong, f"{how}: holds, and may hold: {wrong}\n{story}\n{self.log.read_text()}"
        assert left <= gone, f"{how}: {self.why()}"
        if code is not None:
            assert code == bool(left), f"{how}: exit code {code}, {self.why()}"

    def run(self, runs, kills):
        ends = [self.terminate, self.let_the_lease_end, self.ease, self.restore]
        for number in range(runs):
            self.start()
            for _ in range(self.dice.randrange(1, 4)):
                self.control()
                if self.dice.random() < 0.7:
                    self.interfere()
            killing = [self.kill_and_start] * 4 + [self.kill_and_restore]
            end = self.dice.choice(killing if number < kills else ends)
            self.check(f"run {number}, {end.__name__}", end())
            self.counts[end.__name__] += 1
            if number % 20 == 0:
                print(f"run {number}: {dict(self.counts)}", flush=True)
        self.finish()

    def finish(self):
        """Bring every CPU back: no value of Joulie's may appear."""
        self.external_writers.start()
        code = self.restore()
        self.check("the last restore", code)
        assert code == 0
        assert not self.left()

    def close(self):
        if self.actuator is not None:
            self.actuator.kill()


def campaign(name, tmp_path, *, seed, runs, kills):
    scene = SCENES[name]
    print(f"scene {name}, seed {seed}, {runs} runs of which {kills} end with a kill")
    with mounted(scene.spec, tmp_path / "mount", Behaviour(policy_return=scene.policy_return)) as there:
        held = Campaign(scene, there, tmp_path, seed)
        began = time.monotonic()
        try:
            held.run(runs, kills)
        finally:
            held.close()
            print(f"{dict(held.counts)} in {time.monotonic() - began:.0f} s")
        return held.counts


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scene", sorted(SCENES))
def test_30_random_kills_and_as_many_interventions_leave_nothing_managed(scene, tmp_path):
    counts = campaign(scene, tmp_path, seed=1, runs=40, kills=30)
    assert counts["kills"] == 30
    assert counts["interventions"] >= 30


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scene", sorted(SCENES))
def test_250_random_kills_and_as_many_interventions_leave_nothing_managed(scene, tmp_path):
    """Twice this, for both machines: 500 of each."""
    counts = campaign(scene, tmp_path, seed=int(os.environ.get("JOULIE_SEED", "2")), runs=340, kills=250)
    assert counts["kills"] == 250
    assert counts["interventions"] >= 250
