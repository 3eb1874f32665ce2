"""Events of pods on CPUs whose class the hardware does not serve."""

import pytest

from joulie_actuator.cpu_class_protocol import ClassControl, CpuClassState, UnmetControl
from joulie_actuator.reasons import Reason
from joulie_containers.resources.class_events import ClassEvents
from joulie_core.containers.container import ContainerId
from joulie_core.containers.idset import Cpus
from joulie_core.containers.policy import Placement
from joulie_testing.core.containers import container


class Node:
    """Containers by name with their CPUs, and what was recorded."""

    def __init__(self):
        self.recorded = []
        self.cpus = {}
        self.events = ClassEvents(lambda info, reason, message: self.recorded.append((info.id, reason, message)))

    def note(self, **classes):
        """Note a report; by class a list of control, message and CPUs."""
        states = {
            name: CpuClassState(
                cpus="0-7",
                ceiling_khz=None,
                floor_khz=None,
                unmet=tuple(
                    UnmetControl(control=control, reason=Reason.NO_INTERFACE, message=message, cpus=cpus)
                    for control, message, cpus in unmet
                ),
            )
            for name, unmet in classes.items()
        }
        placements = {
            ContainerId(name): Placement(zone="z", cpus=None if cpus is None else Cpus.parse(cpus))
            for name, cpus in self.cpus.items()
        }
        self.events.note(states, {name: container(name) for name in placements}, placements)
        told, self.recorded = self.recorded, []
        return told


@pytest.fixture
def node():
    return Node()


EPP = (ClassControl.EPP, "no such file", "2-3")
GOVERNOR = (ClassControl.GOVERNOR, "no frequency policy", "3")


def test_the_containers_on_the_cpus_that_lack_something_are_told(node):
    node.cpus = {"a": "0-1", "b": "1-2", "c": "3", "d": None}
    assert node.note(eco=[EPP, GOVERNOR], fast=[]) == [
        ("b", "CpuClassNotInForce", "CPU class eco is not in force: epp: no such file"),
        (
            "c",
            "CpuClassNotInForce",
            "CPU class eco is not in force: epp: no such file; governor: no frequency policy",
        ),
    ]


def test_what_was_told_is_not_told_again_until_it_changes(node):
    node.cpus = {"b": "2"}
    assert len(node.note(eco=[EPP])) == 1
    assert node.note(eco=[EPP]) == []
    assert node.note(eco=[(ClassControl.EPP, "no such file", "0-2")]) == []  # the same, on more CPUs
    node.cpus["new"] = "3"
    assert [name for name, *_ in node.note(eco=[EPP])] == ["new"]
    assert [name for name, *_ in node.note(eco=[GOVERNOR])] == ["new"]
    assert node.note(eco=[]) == []
    assert [name for name, *_ in node.note(eco=[EPP])] == ["b", "new"]


def test_a_container_on_cpus_of_two_classes_is_told_of_both(node):
    node.cpus = {"a": "2-3"}
    told = node.note(eco=[EPP], fast=[GOVERNOR])
    assert [message.partition(" is")[0] for *_, message in told] == ["CPU class eco", "CPU class fast"]
