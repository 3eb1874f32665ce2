"""Receipts of pods: at most one each, of what was stated of them, with the time that it is of."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.attribution.energy import AllocationRule, EnergyKind, HolderEnergy, StatedEnergy
from joulie_core.attribution.receipts import MOST_PODS, SETTLE_S, ReceiptBook
from joulie_core.attribution.sums import EnergySum
from joulie_core.attribution.totals import MeteredDevice
from joulie_core.demand import WorkloadClass
from joulie_core.holders.records import NodePod

CPU, GPU = MeteredDevice.CPU, MeteredDevice.GPU
MEASURED, ALLOCATED = EnergyKind.MEASURED, EnergyKind.ALLOCATED
T0 = 1_700_000_000.0
INTERVAL_S = 10.0


def pod(name="web", uid="", *, started=T0 + 3.0, **changes):
    uid = uid or f"uid-{name}"
    made = NodePod("team", name, uid, True, WorkloadClass.STANDARD, started_at_s=started, cgroup_uid=uid, running=True)
    return replace(made, **changes)


def stated(*energies):
    parts = tuple(
        HolderEnergy(uid, kind, AllocationRule.NONE, joules, joules / 2, joules * 2) for uid, kind, joules in energies
    )
    return StatedEnergy(parts, 0.0, 0.0)


class Node:
    """Readings of one agent, each ten seconds after the one before."""

    def __init__(self, now_s=T0):
        self.book = ReceiptBook()
        self.now_s = now_s - INTERVAL_S
        self.receipts = []

    def read(self, *pods, cpu=(), gpu=(), unreadable=(), known=True):
        self.now_s += INTERVAL_S
        self.book.looked({each.key: each for each in pods} if known else None, unreadable, self.now_s)
        self.book.add(CPU, stated(*((uid, ALLOCATED, joules) for uid, joules in cpu)), INTERVAL_S)
        self.book.add(GPU, stated(*gpu), INTERVAL_S)
        self.receipts += self.book.due(self.now_s)

    def settle(self, *pods):
        for _ in range(int(SETTLE_S // INTERVAL_S) + 1):
            self.read(*pods)
        return self.receipts


@pytest.mark.parametrize("ends", [(), (pod(active=False),)], ids=["deleted", "succeeded"])
def test_a_pod_that_has_ended_has_one_receipt_of_all_that_was_stated_of_it(ends):
    node = Node()
    node.read()
    node.read(pod(), cpu=[("uid-web", 100.0)])
    node.read(pod(), cpu=[("uid-web", 50.0)], gpu=[("uid-web", MEASURED, 1000.0), ("uid-web", ALLOCATED, 10.0)])
    node.read(*ends, gpu=[("uid-web", MEASURED, 7.0)])
    (receipt,) = node.settle(*ends)

    assert (receipt.namespace, receipt.pod, receipt.uid) == ("team", "web", "uid-web")
    assert receipt.energy == {
        (CPU, ALLOCATED): EnergySum(150.0, 75.0, 300.0),
        (GPU, MEASURED): EnergySum(1007.0, 503.5, 2014.0),
        (GPU, ALLOCATED): EnergySum(10.0, 5.0, 20.0),
    }
    assert (receipt.from_start, receipt.begins_at_s, receipt.ended_at_s) == (True, T0 + 3.0, T0 + 30.0)
    assert receipt.cpu_uncounted_s == 0.0
    assert node.settle(*ends) == [receipt]


def test_what_is_stated_in_the_readings_after_the_end_is_in_it_and_later_is_not():
    node = Node()
    node.read(pod(), cpu=[("uid-web", 1.0)])
    node.read(gpu=[("uid-web", MEASURED, 2.0)])
    node.read(gpu=[("uid-web", MEASURED, 4.0)])
    (receipt,) = node.settle()
    node.read(gpu=[("uid-web", MEASURED, 8.0)])
    assert receipt.energy[GPU, MEASURED].joules == 6.0


def test_a_pod_that_ran_before_the_first_reading_is_followed_since_then_only():
    node = Node()
    node.read(pod(started=T0 - 500.0))
    node.read(pod(started=T0 - 500.0), cpu=[("uid-web", 1.0)])
    (receipt,) = node.settle()
    assert (receipt.from_start, receipt.since_s, receipt.begins_at_s) == (False, T0, T0)


def test_a_pod_that_is_seen_before_it_starts_is_followed_from_its_start():
    node = Node()
    node.read(pod(started=None, running=False))
    node.read(pod(started=T0 + 4.0), cpu=[("uid-web", 1.0)])
    (receipt,) = node.settle()
    assert (receipt.from_start, receipt.begins_at_s) == (True, T0 + 4.0)


def test_a_pod_whose_start_is_not_known_was_not_followed_from_it():
    node = Node()
    node.read(pod(started=None), cpu=[("uid-web", 1.0)])
    (receipt,) = node.settle()
    assert receipt.from_start is False


def test_pods_that_ended_before_the_first_reading_have_none_whatever_is_stated():
    node = Node()
    node.read(pod(active=False), cpu=[("uid-web", 1.0)], gpu=[("uid-web", MEASURED, 1.0)])
    assert node.settle(pod(active=False)) == []


def test_a_pod_without_any_energy_has_none():
    node = Node()
    node.read(pod())
    assert node.settle() == []


def test_pods_that_are_not_known_end_none():
    node = Node()
    node.read(pod(), cpu=[("uid-web", 1.0)])
    for _ in range(20):
        node.read(known=False, cpu=[("uid-web", 1.0)])
    assert node.receipts == []
    node.read(pod(), cpu=[("uid-web", 1.0)])
    (receipt,) = node.settle()
    assert receipt.energy[CPU, ALLOCATED].joules == 22.0


def test_a_pod_that_cannot_be_read_has_not_ended():
    node = Node()
    node.read(pod(), cpu=[("uid-web", 1.0)])
    for _ in range(20):
        node.read(unreadable=["team/web"])
    assert node.receipts == []
    (receipt,) = node.settle()
    assert receipt.ended_at_s == node.now_s - SETTLE_S


def test_another_pod_of_the_name_ends_the_one_before():
    node = Node()
    node.read(pod(uid="a"), cpu=[("a", 1.0)])
    node.read(pod(uid="b"), cpu=[("b", 5.0)])
    (first,) = node.settle(pod(uid="b"))
    assert (first.uid, first.energy[CPU, ALLOCATED].joules) == ("a", 1.0)
    (_, second) = node.settle()
    assert (second.uid, second.energy[CPU, ALLOCATED].joules) == ("b", 5.0)


def test_seconds_in_which_the_cpus_could_not_be_split_are_told_while_it_ran():
    node = Node()
    node.read(pod(running=False))
    node.read(pod(), cpu=[("uid-web", 1.0)])
    node.read(pod())
    node.read(pod())
    (receipt,) = node.settle()
    assert receipt.cpu_uncounted_s == 2 * INTERVAL_S


def test_the_cpu_time_of_a_static_pod_is_found_by_the_uid_of_its_cgroup():
    node = Node()
    node.read(pod(cgroup_uid="hash"), cpu=[("hash", 3.0)], gpu=[("uid-web", MEASURED, 4.0)])
    (receipt,) = node.settle()
    assert [each.joules for each in receipt.energy.values()] == [3.0, 4.0]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_annotation_takes_no_energy_of_another_pod(order):
    thief, victim = pod("thief", cgroup_uid="uid-web"), pod()
    node = Node()
    both = (thief, victim)
    node.read(*(both[each] for each in order), cpu=[("uid-web", 3.0)])
    node.read(victim, cpu=[("uid-web", 3.0)])
    node.settle(victim)
    node.read(victim, cpu=[("uid-web", 3.0)])
    (receipt,) = node.settle()
    assert (receipt.pod, receipt.energy[CPU, ALLOCATED].joules) == ("web", 9.0)


def test_an_annotation_that_is_changed_leaves_the_pod_its_own():
    node = Node()
    node.read(pod(cgroup_uid="hash"), cpu=[("hash", 3.0)])
    node.read(pod(cgroup_uid="other"), cpu=[("hash", 3.0)])
    assert node.settle()[0].energy[CPU, ALLOCATED].joules == 6.0
    node.read(cpu=[("hash", 3.0), ("other", 3.0)])


def test_the_number_of_pods_that_are_followed_is_bounded():
    pods = [pod(f"p{number}") for number in range(MOST_PODS + 50)]
    node = Node()
    node.read(*pods, cpu=[(each.uid, 1.0) for each in pods])
    assert len(node.settle()) == MOST_PODS
    node.read(pod("late"), cpu=[("uid-late", 1.0)])
    assert node.settle()[-1].pod == "late"


@pytest.mark.parametrize(
    ("changes", "has"), [({}, False), ({"units": {"NVIDIA": 1}}, True), ({"claims": (None,)}, True)]
)
def test_whether_the_pod_requested_gpus_is_told(changes, has):
    node = Node()
    node.read(pod(**changes), cpu=[("uid-web", 1.0)])
    assert node.settle()[0].has_gpus is has


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c", "d"]), unique=True, max_size=4), max_size=30))
def test_whatever_comes_and_goes_no_uid_has_two_and_no_joule_is_in_two(looks):
    node, ever, joules, run = Node(), 0, 0.0, {}
    for present in looks:
        # A pod that comes again is another one.
        run = {name: run.get(name, (ever := ever + 1)) for name in present}
        uids = [f"{name}-{number}" for name, number in run.items()]
        node.read(*(pod(uid.partition("-")[0], uid) for uid in uids), cpu=[(uid, 1.0) for uid in uids])
        joules += len(uids)
    receipts = node.settle()
    assert len({each.uid for each in receipts}) == len(receipts)
    assert sum(each.energy[CPU, ALLOCATED].joules for each in receipts) == joules
