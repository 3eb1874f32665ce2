"""Any interleaving of writes, kills, external writes, faults and restarts ends with the newest external value restored.

One property covers both halves of the guarantee: after a restore every knob holds the last value that Joulie did not
write. That is the original where nothing interfered, and otherwise the external value. The model has nothing else.
"""

import copy
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

from joulie_actuator.hardware import journal as journal_module
from joulie_actuator.hardware.journal import Journal
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure, KnobKind, KnobLimits
from joulie_actuator.hardware.knob_results import RestoreOutcome, WrittenKnob
from joulie_actuator.reasons import Reason
from joulie_testing.agent import kill_points
from joulie_testing.agent.kill_points import Killed

KEYS = ("a", "b", "c")
#: Joulie's are even and external ones odd, so that the model can distinguish them as the code under test cannot.
OWN = st.integers(min_value=1, max_value=20).map(lambda n: 2 * n)
EXTERNAL = st.integers(min_value=0, max_value=20).map(lambda n: 2 * n + 1)
#: Limits of the platform differ from requests, which are rounded down to a multiple of four and one.
PLATFORM = st.integers(min_value=0, max_value=9).map(lambda n: 4 * n + 3)
HIGHEST = 41
SUBSETS = st.sets(st.sampled_from(KEYS), min_size=1)
#: A kill at the n-th step of an operation; most operations have between 3 and 60.
KILLS = st.none() | st.integers(min_value=1, max_value=60)


#: Thousands of journals are written here; on a disk each would wait for it.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


class Fate(kill_points.Fate):
    """A process that can be killed, on a disk that can be full."""

    def __init__(self):
        super().__init__()
        self.disk_full = False


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
            try:
                self._fate.step()
            except Killed:
                if name == "open":
                    os.close(result)  # as the kernel does
                raise
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

    def read(self, key):
        return self.values[key]


class Policies(Machine):
    """The hardware of requests: `values` are the user's, and a limit of the platform may be below them."""

    def __init__(self, values):
        super().__init__(values)
        self.platform: dict[str, int] = {}
        #: Keys of limits that show nowhere but in the value.
        self.hidden: set[str] = set()

    def answer(self, value):
        return value

    def read(self, key):
        return min(self.values[key], self.platform.get(key, HIGHEST))


class MortalKnob:
    unit = "u"
    kind = KnobKind.LIMIT
    limits = KnobLimits(2, HIGHEST)

    def __init__(self, key, machine, fate):
        self.key = key
        self._machine = machine
        self._fate = fate

    def read(self):
        self._fate.step()
        if self.key in self._machine.lost:
            return HardwareFailure(Reason.DEVICE_LOST)
        return self._machine.read(self.key)

    def write(self, value):
        self._fate.step()
        if self.key in self._machine.lost:
            return HardwareFailure(Reason.DEVICE_LOST)
        self._machine.values[self.key] = self._machine.answer(value)
        self._fate.step()
        return self._machine.read(self.key)


class MortalRequest(MortalKnob):
    kind = KnobKind.REQUEST

    def platform_limit(self, value):
        shown = self.key not in self._machine.hidden
        return "too hot" if shown and self._machine.platform.get(self.key) == value else ""

    def next_above(self, value):
        return min(HIGHEST, value + 1) if value < HIGHEST else None


class RestoreStories(RuleBasedStateMachine):
    make_machine: type[Machine] = Machine
    make_knob: type[MortalKnob] = MortalKnob

    @initialize(values=st.tuples(EXTERNAL, EXTERNAL, EXTERNAL))
    def begin(self, values):
        self.directory = Path(tempfile.mkdtemp(dir=MEMORY))
        self.fate = Fate()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(journal_module, "os", MortalOs(self.fate))
        self.machine = self.make_machine(zip(KEYS, values, strict=True))
        self.knobs = {key: self.make_knob(key, self.machine, self.fate) for key in KEYS}
        self.wanted = dict(self.machine.values)
        #: What a tool has read before it set a lower value, and the newest external value at that time.
        self.saved = {}
        self.boot = 1
        self.journal = None
        self.start()

    @precondition(lambda self: self.journal is None)
    @rule()
    def start(self):
        self.journal = Journal.open(self.directory, boot_id=f"boot {self.boot}")
        self.writer = JournaledWriter(self.journal)

    @precondition(lambda self: self.journal is not None)
    @rule(keys=SUBSETS, value=OWN, kill=KILLS)
    def control(self, keys, value, kill):
        keys = {key for key in keys if self.may_control(key)}
        for key in keys:
            if not self.stays(key, value):  # replaces the tool's value, which then is all that is known
                self.saved.pop(key, None)
        with self.mortal(kill):
            for key, answer in zip(keys, self.writer.set_all([(self.knobs[key], value) for key in keys]), strict=True):
                if isinstance(answer, WrittenKnob):
                    external = self.stays(key, value)
                    assert self.machine.values[key] == (self.wanted[key] if external else self.machine.answer(value))
                    assert answer.value == self.machine.read(key)
                    self.saw(key)

    @precondition(lambda self: self.journal is not None)
    @rule(keys=SUBSETS, kill=KILLS, record_later=st.booleans())
    def restore_killed(self, keys, kill, record_later):
        with self.mortal(kill):
            self.restore(keys, record_later=record_later)

    @precondition(lambda self: self.journal is not None)
    @rule(kill=KILLS)
    def record(self, kill):
        with self.mortal(kill):
            assert (self.writer.record() is not None) == (self.writer.unrecorded and self.fate.disk_full)

    @rule(key=st.sampled_from(KEYS), value=EXTERNAL)
    def an_external_writer_writes(self, key, value):
        self.external_write(key, value)

    @rule(key=st.sampled_from(KEYS), value=EXTERNAL)
    def a_tool_saves_a_value_and_sets_a_lower_one(self, key, value):
        before = self.machine.values[key], self.wanted[key]
        if value < min(before):
            self.external_write(key, value)
            if self.machine.values[key] != before[0]:
                self.saved[key] = before

    @rule(key=st.sampled_from(KEYS))
    def the_tool_writes_back_what_it_saved(self, key):
        """It may be Joulie's value; what is to be restored is then what was before."""
        if key in self.saved and self.may_write(key):
            self.machine.values[key], self.wanted[key] = self.saved.pop(key)
            self.has_written(key)

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

    @rule(values=st.tuples(EXTERNAL | OWN, EXTERNAL | OWN, EXTERNAL | OWN))
    def reboot(self, values):
        """Firmware may start with the very value that we had in force."""
        self.bury()
        self.fresh()
        self.boot += 1
        self.machine.values = {key: self.machine.answer(value) for key, value in zip(KEYS, values, strict=True)}
        self.wanted = dict(self.machine.values)

    def fresh(self):
        """The machine starts."""
        self.saved.clear()

    def may_control(self, _key):
        return True

    def stays(self, key, value):
        """Whether an external value limits no less than ours, and stays in force."""
        return self.wanted[key] <= value

    def external_write(self, key, value):
        self.saved.pop(key, None)
        self.machine.values[key] = self.wanted[key] = value

    def may_write(self, _key):
        return True

    def has_written(self, key):
        """An external writer has written."""

    def saw(self, key):
        """The agent has looked at a knob, settled whose value it holds, and recorded it."""

    def restore(self, keys, *, record_later=False):
        for key in keys:
            self.saved.pop(key, None)
        knobs = [self.knobs[key] for key in keys]
        answers = {answer.key: answer for answer in self.writer.restore(knobs, record_later=record_later)}
        for key in keys:
            if key in answers and answers[key].outcome is RestoreOutcome.FAILED:
                assert key in self.machine.lost or self.fate.disk_full
            else:
                assert self.machine.values[key] == self.wanted[key]
                assert key not in answers or answers[key].value == self.machine.read(key)
                self.saw(key)

    @contextmanager
    def mortal(self, kill) -> Iterator[None]:
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


class RestoreRequests(RestoreStories):
    """The same for requests, with a platform that sets and ends limits at any time.

    What cannot be known is left out: an external request that a platform limit hides. So the platform moves only where
    the agent has seen the last external request, none comes while it limits, and no request is written first then.
    """

    make_machine = Policies
    make_knob = MortalRequest

    def __init__(self):
        super().__init__()
        self.unseen: set[str] = set()

    @rule(key=st.sampled_from(KEYS), limit=st.none() | PLATFORM)
    def the_platform_limits_or_does_not(self, key, limit):
        if key not in self.unseen:
            self.machine.platform.pop(key, None)
            self.machine.platform |= {} if limit is None else {key: limit}

    def external_write(self, key, value):
        if self.may_write(key):
            super().external_write(key, value // 4 * 4 + 1)
            self.has_written(key)

    def may_write(self, key):
        return key not in self.machine.platform

    def has_written(self, key):
        self.unseen.add(key)

    def may_control(self, key):
        return key in self.journal.entries or key not in self.machine.platform

    def fresh(self):
        super().fresh()
        self.machine.platform.clear()
        self.unseen.clear()

    def mortal(self, kill):
        """Where the disk is full, a kill in the middle of a test may lose an external request: it cannot be noted."""
        return super().mortal(None if self.fate.disk_full else kill)

    def saw(self, key):
        if not self.fate.disk_full and not self.writer.unrecorded:
            self.unseen.discard(key)


class MortalFloor(MortalRequest):
    kind = KnobKind.FLOOR


class RestoreFloors(RestoreRequests):
    """The same for lower limits: an upper limit is what hides them, and no external one stays in force."""

    make_knob = MortalFloor

    def stays(self, _key, _value):
        return False


class KillPoints:
    """Runs a story once for each pair of points at which the process can be killed: in a write, then in the restore."""

    def __init__(self, directory, monkeypatch):
        self._directory = directory
        self._fate = Fate()
        monkeypatch.setattr(journal_module, "os", MortalOs(self._fate))

    def knob(self, kind, machine):
        return kind("a", machine, self._fate)

    def open(self):
        return Journal.open(self._directory, boot_id="1")

    def survives(self, kill, act):
        """Let one process act until it is killed at a step; returns whether it came to its end."""
        with self.open() as journal:
            try:
                with self._fate.killed_at(kill):
                    act(JournaledWriter(journal))
            except Killed:
                return False
            return True

    def every_pair(self, write, restore):
        """Return the number of pairs of points at which a process was killed twice.

        `write(first)` returns a machine and whether the process that wrote survived. `restore(machine, first, second)`
        returns whether the process that restored did. It is called once for each second point, each time with the
        machine and the state directory as the write left them.
        """
        pairs, wrote = 0, False
        for first in itertools.count(1):
            if wrote:
                break
            machine, wrote = write(first)
            left = {path: path.read_bytes() for path in self._directory.iterdir()}
            for second in itertools.count(1):
                self._put(left)
                restored = restore(copy.deepcopy(machine), first, second)
                pairs += not wrote and not restored
                if restored:
                    break
        return pairs

    def _put(self, files):
        for path in self._directory.iterdir():
            if path not in files:
                path.unlink()
        for path, content in files.items():
            path.write_bytes(content)


@pytest.fixture
def kills(in_memory, monkeypatch):
    return KillPoints(in_memory, monkeypatch)


@pytest.mark.parametrize("external", [None, 7, 39])
@pytest.mark.parametrize("written", [8, 40], ids=["taken as written", "clamped by firmware"])
def test_two_kills_in_a_row_lose_nothing_at_any_pair_of_points(written, external, kills):
    """Exhaustive where the machine below samples: killed in a write, then in the attempt to restore."""

    def write(first):
        machine = Machine({"a": 41})
        knob = kills.knob(MortalKnob, machine)
        kills.survives(None, lambda writer: writer.set(knob, 12))
        wrote = kills.survives(first, lambda writer: writer.set(knob, written))
        if external is not None:
            machine.values["a"] = external
        return machine, wrote

    def restore(machine, first, second):
        knob = kills.knob(MortalKnob, machine)
        restored = kills.survives(second, lambda writer: writer.restore([knob]))
        kills.survives(None, lambda writer: writer.restore([knob]))
        assert machine.values["a"] == (external or 41), f"killed at steps {first} and {second}"
        return restored

    assert kills.every_pair(write, restore) > 300


#: What happens to the machine before a write that is killed, between it and a restore that is killed, and after that.
EVENTS = {
    "nothing": {},
    "a lower request of an external writer": {"request": 5},
    "a higher request of an external writer": {"request": 33},
    "a platform limit below Joulie's": {"platform": 7},
    "a platform limit above Joulie's": {"platform": 23},
    "the platform limit ends": {"platform": None},
}


@pytest.mark.parametrize(
    ("written", "story"),
    [
        (8, ("nothing", "nothing", "nothing")),
        (8, ("nothing", "a lower request of an external writer", "nothing")),
        (8, ("nothing", "a lower request of an external writer", "a platform limit below Joulie's")),
        (8, ("nothing", "a higher request of an external writer", "nothing")),
        (8, ("nothing", "a platform limit below Joulie's", "nothing")),
        (8, ("nothing", "a platform limit below Joulie's", "the platform limit ends")),
        (8, ("nothing", "nothing", "a platform limit below Joulie's")),
        (8, ("a platform limit below Joulie's", "nothing", "the platform limit ends")),
        (8, ("a platform limit below Joulie's", "the platform limit ends", "a platform limit above Joulie's")),
        (8, ("a platform limit above Joulie's", "a platform limit below Joulie's", "a platform limit above Joulie's")),
        (16, ("nothing", "nothing", "nothing")),
        (16, ("nothing", "a lower request of an external writer", "nothing")),
        (16, ("a platform limit below Joulie's", "nothing", "the platform limit ends")),
    ],
    ids=str,
)
def test_two_kills_in_a_row_lose_no_request_at_any_pair_of_points(written, story, kills):
    happened = [EVENTS[each] for each in story]

    def write(first):
        machine = Policies({"a": 37})
        knob = kills.knob(MortalRequest, machine)
        kills.survives(None, lambda writer: writer.set(knob, 12))
        apply(machine, happened[0])
        wrote = kills.survives(first, lambda writer: writer.set(knob, written))
        apply(machine, happened[1])
        return machine, wrote

    def restore(machine, first, second):
        knob = kills.knob(MortalRequest, machine)
        restored = kills.survives(second, lambda writer: writer.restore([knob]))
        apply(machine, happened[2])
        kills.survives(None, lambda writer: writer.restore([knob]))
        requests = [each["request"] for each in happened if "request" in each]
        assert machine.values["a"] == (requests or [37])[-1], f"killed at steps {first} and {second}"
        with kills.open() as journal:
            assert not journal.entries
        return restored

    assert kills.every_pair(write, restore) > 100


@pytest.mark.parametrize("external", [None, 33])
def test_two_kills_in_a_row_lose_no_floor_at_any_pair_of_points(external, kills):
    def write(first):
        machine = Policies({"a": 5})
        knob = kills.knob(MortalFloor, machine)
        kills.survives(None, lambda writer: writer.set(knob, 12))
        wrote = kills.survives(first, lambda writer: writer.set(knob, 16))
        if external is not None:
            machine.values["a"] = external
        machine.platform = {"a": 35}
        return machine, wrote

    def restore(machine, first, second):
        knob = kills.knob(MortalFloor, machine)
        restored = kills.survives(second, lambda writer: writer.restore([knob]))
        machine.platform = {}
        kills.survives(None, lambda writer: writer.restore([knob]))
        assert machine.values["a"] == (external or 5), f"killed at steps {first} and {second}"
        return restored

    assert kills.every_pair(write, restore) > 100


@pytest.mark.parametrize(
    ("make", "seen"),
    [((Machine, MortalKnob), False), ((Machine, MortalKnob), True), ((Policies, MortalRequest), True)],
    ids=["register, not seen", "register", "request"],
)
def test_two_kills_in_a_row_lose_nothing_where_a_tool_writes_joulies_value_back(seen, make, kills):
    def write(first):
        machine = make[0]({"a": 37})
        knob = kills.knob(make[1], machine)
        kills.survives(None, lambda writer: writer.set(knob, 12))
        saved, machine.values["a"] = machine.values["a"], 5
        if seen:
            kills.survives(None, lambda writer: writer.set(knob, 12))
        wrote = kills.survives(first, lambda writer: writer.set(knob, 16))
        machine.values["a"] = saved
        return machine, wrote

    def restore(machine, first, second):
        knob = kills.knob(make[1], machine)
        restored = kills.survives(second, lambda writer: writer.restore([knob]))
        kills.survives(None, lambda writer: writer.restore([knob]))
        assert machine.values["a"] == 37, f"killed at steps {first} and {second}"
        with kills.open() as journal:
            assert not journal.entries
        return restored

    assert kills.every_pair(write, restore) > 10


@pytest.mark.parametrize(("user", "platform"), [(29, None), (41, 23), (41, 7)])
def test_a_first_write_that_is_killed_loses_no_request_below_a_platform_limit_that_shows_nowhere(user, platform, kills):
    def write(first):
        machine = Policies({"a": user})
        machine.hidden = {"a"}
        apply(machine, {"platform": platform})
        knob = kills.knob(MortalRequest, machine)
        wrote = kills.survives(first, lambda writer: writer.set(knob, 12))
        return machine, wrote

    def restore(machine, first, second):
        knob = kills.knob(MortalRequest, machine)
        restored = kills.survives(second, lambda writer: writer.restore([knob]))
        kills.survives(None, lambda writer: writer.restore([knob]))
        assert machine.values["a"] == user, f"killed at steps {first} and {second}"
        return restored

    kills.every_pair(write, restore)


def apply(machine, event):
    if "request" in event:
        machine.values["a"] = event["request"]
    if "platform" in event:
        machine.platform = {"a": event["platform"]} if event["platform"] else {}


@pytest.mark.parametrize(
    "stories", [RestoreStories, RestoreRequests, RestoreFloors], ids=["registers", "requests", "floors"]
)
def test_any_interleaving_ends_with_the_newest_external_value(stories):
    run_state_machine_as_test(
        stories,
        settings=settings(
            max_examples=300, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
