"""Real processes, really killed, on a tree of plain files: whenever SIGKILL comes, the originals come back."""

import os
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from joulie_actuator.hardware.journal import Journal
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import KnobKind, KnobLimits
from joulie_actuator.hardware.knob_results import RestoreOutcome

KILLS = 200
ORIGINALS = {f"knob{number}": 1_000_001 + 2 * number for number in range(8)}


@dataclass(frozen=True)
class FileKnob:
    """A file that takes one number at once, as sysfs does, and rounds what it is given, as firmware does."""

    path: Path
    unit: str = "uW"
    kind: KnobKind = KnobKind.LIMIT

    @property
    def key(self):
        return self.path.name

    @property
    def limits(self):
        return KnobLimits(0, 2_000_000)

    def read(self):
        return int(self.path.read_text())

    def write(self, value):
        rounded = value if value % 2 else value // 125 * 125
        file = os.open(self.path, os.O_WRONLY)
        os.pwrite(file, f"{rounded:>10}".encode(), 0)
        os.close(file)
        return self.read()


def _control_until_killed(tree, state, ready):
    """The run: ever new values, some for one knob and some for all, and now and then all of it restored."""
    dice = random.Random(os.getpid())
    knobs = [FileKnob(tree / name) for name in ORIGINALS]
    with Journal.open(state) as journal:
        writer = JournaledWriter(journal)
        os.write(ready, b"!")
        while True:
            some = dice.sample(knobs, dice.choice([1, len(knobs)]))
            writer.set_all([(knob, dice.randrange(0, 2_000_000, 2)) for knob in some])
            if dice.random() < 0.1:
                writer.restore(knobs)


def _start_run(tree, state):
    """Fork a run, and return when it is about to make its first write."""
    ready, signalled = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _control_until_killed(tree, state, signalled)
        finally:
            os._exit(1)
    os.close(signalled)
    assert os.read(ready, 1) == b"!"
    os.close(ready)
    return child


def test_200_kills_at_random_points_restore_the_newest_external_value_200_times(tmp_path):
    """In every other round an external writer writes after the kill."""
    tree, state = tmp_path / "tree", tmp_path / "state"
    tree.mkdir()
    for name, value in ORIGINALS.items():
        (tree / name).write_text(f"{value:>10}")
    dice = random.Random(1)
    restored = found_in_journal = 0
    for attempt in range(KILLS):
        child = _start_run(tree, state)
        time.sleep(dice.uniform(0, 0.02))  # a random point is what is wanted here
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
        wanted = dict(ORIGINALS)
        if attempt % 2:
            name = dice.choice(list(ORIGINALS))
            wanted[name] = dice.randrange(1, 2_000_000, 2)
            (tree / name).write_text(f"{wanted[name]:>10}")
        with Journal.open(state) as journal:
            found_in_journal += bool(journal.entries)
            answers = JournaledWriter(journal).restore(FileKnob(tree / name) for name in ORIGINALS)
            assert all(answer.outcome is not RestoreOutcome.FAILED for answer in answers)
            assert not journal.entries
        restored += {name: FileKnob(tree / name).read() for name in ORIGINALS} == wanted
        for name, value in ORIGINALS.items():
            (tree / name).write_text(f"{value:>10}")
    print(f"killed {KILLS}, with something in the journal {found_in_journal}, restored {restored}")
    assert restored == KILLS
    assert found_in_journal > KILLS / 2
