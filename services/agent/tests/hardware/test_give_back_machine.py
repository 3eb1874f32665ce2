"""Any interleaving of writes, kills, foreign writes, faults and restarts gives back what somebody else wanted last.

One sentence covers both halves of the promise: after a restore every knob holds the last value that was not ours. That
is the original where nobody interfered, and the foreign value where somebody did. The model knows nothing more.
"""

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from joulie_agent.hardware import journal as journal_module
from joulie_agent.hardware.hands import GivenBack, Hands, Written
from joulie_agent.hardware.journal import Journal
from joulie_agent.hardware.knob import KnobLimits, Refusal
from joulie_agent.reasons import Reason

KEYS = ("a", "b", "c")
#: Ours are even and everybody else's odd, so that the model can tell them apart as the code under test cannot.
OURS = st.integers(min_value=1, max_value=20).map(lambda n: 2 * n)
FOREIGN = st.integers(min_value=0, max_value=20).map(lambda n: 2 * n + 1)
SUBSETS = st.sets(st.sampled_from(KEYS), min_size=1)
#: A kill at the n-th step of an operation; most operations have between 3 and 60.
KILLS = st.none() | st.integers(min_value=1, max_value=60)


#: Thousands of journals are written here; on a disk each would wait for it.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


class Killed(BaseException):
    """The process is gone; nothing may catch this."""


class Fate:
    """Counts the steps at which the process can die, and the disk can be full."""

    def __init__(self):
        self.steps_left = None
        self.disk_full = False

    def step(self):
        if self.steps_left is None:
            return
        self.steps_left -= 1
        if self.steps_left <= 0:
            raise Killed


class MortalOs:
    """`os` for the journal: the process may die before and after each call, and in the middle of a write."""

    def __init__(self, fate):
        self._fate = fate

    def __getattr__(self, name: str) -> Any:
        call = getattr(os, name)
        if not callable(call) or name == "close":  # the kernel closes what a dead process leaves open
            return call

        def mortal(*args, **kwargs):
            self._fate.step()
            result = call(*args, **kwargs)
            self._fate.step()
            return result

        return mortal

    def write(self, file, content):
        if self._fate.disk_full:
            raise OSError(28, "No space left on device")
        self._fate.step()
        written = os.write(file, content[: len(content) // 2 + 1])
        self._fate.step()
        return written


class Machine:
    """The hardware: it lives on when processes die. Even values are rounded down to fours and capped at 32."""

    def __init__(self, values):
        self.values = dict(values)
        self.lost: set[str] = set()

    def answer(self, value):
        return value if value % 2 else min(32, value // 4 * 4)


class MortalKnob:
    unit = "u"
    limits = KnobLimits(2, 40)

    def __init__(self, key, machine, fate):
        self.key = key
        self._machine = machine
        self._fate = fate

    def read(self):
        self._fate.step()
        if self.key in self._machine.lost:
            return Refusal(Reason.DEVICE_LOST)
        return self._machine.values[self.key]

    def write(self, value):
        self._fate.step()
        if self.key in self._machine.lost:
            return Refusal(Reason.DEVICE_LOST)
        self._machine.values[self.key] = self._machine.answer(value)
        self._fate.step()
        return self._machine.values[self.key]


class GiveBack(RuleBasedStateMachine):
    @initialize(values=st.tuples(FOREIGN, FOREIGN, FOREIGN))
    def begin(self, values):
        self.directory = Path(tempfile.mkdtemp(dir=MEMORY))
        self.fate = Fate()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(journal_module, "os", MortalOs(self.fate))
        self.machine = Machine(zip(KEYS, values, strict=True))
        self.knobs = {key: MortalKnob(key, self.machine, self.fate) for key in KEYS}
        self.wanted = dict(self.machine.values)
        self.boot = 1
        self.journal = None
        self.start()

    @precondition(lambda self: self.journal is None)
    @rule()
    def start(self):
        self.journal = Journal.open(self.directory, boot_id=f"boot {self.boot}")
        self.hands = Hands(self.journal)

    @precondition(lambda self: self.journal is not None)
    @rule(keys=SUBSETS, value=OURS, kill=KILLS)
    def control(self, keys, value, kill):
        with self.mortal(kill):
            for key, answer in zip(keys, self.hands.set_all([(self.knobs[key], value) for key in keys]), strict=True):
                if isinstance(answer, Written):
                    assert answer.value == self.machine.values[key] == self.machine.answer(value)

    @precondition(lambda self: self.journal is not None)
    @rule(keys=SUBSETS, kill=KILLS)
    def give_back(self, keys, kill):
        with self.mortal(kill):
            self.restore(keys)

    @rule(key=st.sampled_from(KEYS), value=FOREIGN)
    def somebody_else_writes(self, key, value):
        self.machine.values[key] = self.wanted[key] = value

    @rule(key=st.sampled_from(KEYS))
    def lose_or_find_a_device(self, key):
        self.machine.lost ^= {key}

    @rule()
    def fill_or_clear_the_disk(self):
        self.fate.disk_full = not self.fate.disk_full

    @precondition(lambda self: self.journal is not None)
    @rule()
    def die_between_operations(self):
        self.bury()

    @rule(values=st.tuples(FOREIGN | OURS, FOREIGN | OURS, FOREIGN | OURS))
    def reboot(self, values):
        """Firmware may start with the very value that we had in force."""
        self.bury()
        self.boot += 1
        self.machine.values = {key: self.machine.answer(value) for key, value in zip(KEYS, values, strict=True)}
        self.wanted = dict(self.machine.values)

    def restore(self, keys):
        answers = {answer.key: answer for answer in self.hands.restore(self.knobs[key] for key in keys)}
        for key in keys:
            if key in answers and answers[key].outcome is GivenBack.REFUSED:
                assert key in self.machine.lost or self.fate.disk_full
            elif key in answers:
                assert self.machine.values[key] == self.wanted[key] == answers[key].value
            else:
                assert self.machine.values[key] == self.wanted[key]

    @contextmanager
    def mortal(self, kill) -> Iterator[None]:
        self.fate.steps_left = kill
        try:
            yield
        except Killed:
            self.bury()
        finally:
            self.fate.steps_left = None

    def bury(self):
        if self.journal is not None:
            self.journal.close()
            self.journal = None

    def teardown(self):
        if not hasattr(self, "directory"):
            return
        try:
            self.machine.lost.clear()
            self.fate.disk_full = False
            self.bury()
            self.start()
            self.restore(KEYS)
            assert self.machine.values == self.wanted
            assert not self.journal.entries
        finally:
            self.bury()
            self.patch.undo()
            shutil.rmtree(self.directory)


@pytest.fixture
def in_memory():
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        yield Path(directory)


@pytest.mark.parametrize("foreign", [None, 7])
@pytest.mark.parametrize("ours", [8, 40], ids=["taken as asked", "clamped by firmware"])
def test_two_kills_in_a_row_lose_nothing_at_any_pair_of_points(ours, foreign, in_memory, monkeypatch):
    """Exhaustive where the machine below samples: dying in a write, then in the attempt to give back."""
    fate = Fate()
    monkeypatch.setattr(journal_module, "os", MortalOs(fate))

    def survives(kill, act):
        with Journal.open(in_memory, boot_id="1") as journal:
            fate.steps_left = kill
            try:
                act(Hands(journal))
            except Killed:
                return False
            finally:
                fate.steps_left = None
            return True

    def run(first, second):
        machine = Machine({"a": 5})
        knob = MortalKnob("a", machine, fate)
        survives(None, lambda hands: hands.set(knob, 12))
        wrote = survives(first, lambda hands: hands.set(knob, ours))
        if foreign is not None:
            machine.values["a"] = foreign
        restored = survives(second, lambda hands: hands.restore([knob]))
        survives(None, lambda hands: hands.restore([knob]))
        assert machine.values["a"] == (foreign or 5), f"killed at steps {first} and {second}"
        return wrote, restored

    pairs = 0
    for first in itertools.count(1):
        for second in itertools.count(1):
            wrote, restored = run(first, second)
            pairs += not wrote and not restored
            if restored:
                break
        if wrote:
            break
    assert pairs > 300


def test_any_interleaving_ends_with_the_originals_restored_or_the_foreign_value_kept():
    run_state_machine_as_test(
        GiveBack,
        settings=settings(
            max_examples=300, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
