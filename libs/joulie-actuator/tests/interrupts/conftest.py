"""The interrupts of a machine in a directory."""

import pytest

from joulie_actuator.hardware.journal import Journal
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_testing.agent.interrupt_bench import InterruptMachine, open_bench


@pytest.fixture
def machine(tmp_path):
    return InterruptMachine(tmp_path / "machine")


@pytest.fixture
def bench(machine, writer, events, clock):
    made = open_bench(machine, writer, events, clock)
    yield made
    made.executor.close()


@pytest.fixture
def successor(machine, tmp_path, events, clock):
    """Open the machine as the next process, after `writer` has gone."""
    made = []

    def make():
        journal = Journal.open(tmp_path / "state")
        made.append(journal)
        return open_bench(machine, JournaledWriter(journal), events, clock)

    yield make
    for journal in made:
        journal.close()
