"""The course of pods, from what a watch delivers."""

from dataclasses import replace
from itertools import pairwise

import pytest

from joulie_core.demand import WorkloadClass
from joulie_sim.recording.lines import PodBegin, PodEnd
from joulie_sim.recording.pod_facts import PodFacts
from joulie_sim.recording.pseudonyms import Pseudonyms
from joulie_sim.recording.tracker import Moment, PodTracker

START_S = 1000.0
WAITING = PodFacts(
    uid="u1",
    key="team/train",
    owner="Job",
    workload_class=WorkloadClass.STANDARD,
    cpu_milli=500,
    memory_mib=64,
    gpus=1,
    gpu_resource="nvidia.com/gpu",
    claims=False,
    constrained=False,
    node=None,
    terminal=False,
    created_s=1010.0,
    bound_s=None,
    started_s=None,
    finished_s=None,
)
BOUND = replace(WAITING, node="n1", bound_s=1020.0)
RUNNING = replace(BOUND, started_s=1021.0)
DONE = replace(RUNNING, terminal=True, finished_s=1051.0)


class Tracked(PodTracker):
    def __init__(self, *, keep_names=True):
        self.lines = []
        super().__init__(
            start_s=START_S,
            names=Pseudonyms(keep=keep_names),
            gpu_model={"n1": "NVIDIA-A10"}.get,
            write=self.lines.append,
        )

    def see(self, *states, at=1060.0, behind=None, first=False):
        """Deliver successive states of a pod."""
        for old, new in pairwise(states):
            self.change(old, new, Moment(at, behind, first=first))
        return self.lines


def test_a_pod_that_is_seen_from_its_creation_to_its_end_has_all_its_times() -> None:
    opened, ended = Tracked().see(None, WAITING, BOUND, RUNNING, DONE)
    assert (opened.end, opened.bound_s, opened.ended_s) == (PodEnd.OPEN, 20.0, None)
    assert (ended.begin, ended.end) == (PodBegin.SEEN, PodEnd.ENDED)
    assert (ended.arrives_s, ended.bound_s, ended.started_s, ended.ended_s) == (10.0, 20.0, 21.0, 51.0)
    assert (ended.id, ended.gpu_model, ended.node, ended.owner) == (opened.id, "NVIDIA-A10", "n1", "Job")


def test_a_pod_that_was_there_before_is_marked_and_has_negative_times() -> None:
    before = replace(RUNNING, created_s=900.0, bound_s=901.0, started_s=None)
    (line,) = Tracked().see(None, before, first=True, at=START_S)
    assert (line.begin, line.arrives_s, line.bound_s, line.started_s) == (PodBegin.BEFORE, -100.0, -99.0, None)


def test_a_pod_that_is_deleted_while_it_runs_ends_then() -> None:
    line = Tracked().see(None, RUNNING, None, at=1042.5)[-1]
    assert (line.end, line.ended_s) == (PodEnd.ENDED, 42.5)


def test_an_end_during_an_interruption_is_unknown_after_the_last_contact() -> None:
    tracked = Tracked()
    tracked.see(None, RUNNING)
    line = tracked.see(RUNNING, None, at=1100.0, behind=1061.0)[-1]
    assert (line.end, line.ended_s, line.seen_s) == (PodEnd.UNKNOWN, None, 61.0)


def test_an_end_that_the_pod_shows_is_known_after_an_interruption() -> None:
    tracked = Tracked()
    tracked.see(None, RUNNING)
    line = tracked.see(RUNNING, DONE, at=1100.0, behind=1040.0)[-1]
    assert (line.end, line.ended_s) == (PodEnd.ENDED, 51.0)


def test_a_binding_without_a_condition_happened_when_it_was_seen_or_at_an_unknown_time() -> None:
    bound = replace(BOUND, bound_s=None)
    assert Tracked().see(None, WAITING, bound, at=1030.0)[-1].bound_s == 30.0
    assert Tracked().see(None, WAITING, bound, at=1030.0, behind=1015.0)[-1].bound_s is None
    assert Tracked().see(None, bound, at=1030.0)[-1].bound_s is None


def test_a_pod_of_the_same_name_is_another_pod() -> None:
    second = replace(RUNNING, uid="u2", created_s=1055.0)
    lines = Tracked().see(None, RUNNING, second)
    assert [line.end for line in lines] == [PodEnd.OPEN, PodEnd.ENDED, PodEnd.OPEN]
    assert lines[0].id == lines[1].id != lines[2].id


@pytest.mark.parametrize("first", [True, False])
def test_a_pod_that_had_ended_before_the_recording_is_not_in_it(first) -> None:
    assert Tracked().see(None, replace(DONE, finished_s=990.0), None, first=first) == []


def test_a_pod_that_was_created_and_ended_unseen_is_recorded() -> None:
    line = Tracked().see(None, DONE, None, behind=1005.0)[-1]
    assert (line.end, line.ended_s) == (PodEnd.ENDED, 51.0)


def test_changes_of_a_pod_that_has_ended_are_not_recorded_again() -> None:
    assert len(Tracked().see(None, RUNNING, DONE, replace(DONE, gpus=1), None)) == 2


def test_a_pod_that_waits_is_written_at_the_end_of_the_recording() -> None:
    tracked = Tracked()
    assert tracked.see(None, WAITING) == []
    assert (tracked.waiting, tracked.running) == (1, 0)
    tracked.close(1100.0)
    (line,) = tracked.lines
    assert (line.end, line.node, line.bound_s, line.seen_s) == (PodEnd.OPEN, None, None, 100.0)


def test_names_are_pseudonyms_that_are_the_same_for_the_same_name() -> None:
    tracked = Tracked(keep_names=False)
    first, ended, second = tracked.see(None, RUNNING, replace(RUNNING, uid="u2"))
    assert first.name == ended.name == second.name
    assert first.node == second.node
    assert "train" not in first.name
    assert "n1" not in first.node
    assert first.node != Tracked(keep_names=False).see(None, RUNNING)[0].node
