import pytest

from joulie_agent.holders.follow import HoldersFollower, HolderSources
from joulie_agent.holders.report import device_reports
from joulie_core.demand import WorkloadClass
from joulie_core.held_as import HeldAs
from joulie_core.holders.held import HeldDevice, Holder, NodePods
from joulie_core.holders.records import (
    DeviceListing,
    DeviceUsers,
    HolderReason,
    ListedContainer,
    ListedPod,
    NodeGpu,
    NodePod,
    NoListing,
    PluginDevice,
)
from joulie_core.kinds.held_devices import BandReport, ClassLimitNow, ClassLimitReport, HolderClass

GPU = NodeGpu("GPU-a", "NVIDIA")
POD = NodePod("team", "train", "u", True, WorkloadClass.STANDARD, 100.0, {"NVIDIA": 1})
LISTED = (ListedPod("team", "train", (ListedContainer("main", (PluginDevice("nvidia.com/gpu", "GPU-a"),)),)),)


class Node:
    """What a follower looks at; a test changes it between two looks."""

    def __init__(self):
        self.listing = DeviceListing(LISTED, 1000.0)
        self.pods = NodePods({POD.key: POD})
        self.gpus = (GPU,)
        self.users = None
        self.changes = 0
        self.follower = HoldersFollower(
            HolderSources(self.list, lambda: self.pods, lambda: self.gpus, lambda: self.users), changed=self.changed
        )

    async def list(self):
        return self.listing

    def changed(self):
        self.changes += 1

    async def look(self):
        await self.follower.look()
        return [(each.held_as.value, each.reason.value) for each in self.follower.current()]


@pytest.fixture
def node():
    return Node()


async def test_before_the_first_answer_nothing_is_known(node):
    assert node.follower.current() is None


async def test_only_what_changes_is_told(node):
    assert await node.look() == [("standard", "AllStandard")]
    node.listing = DeviceListing(LISTED, 1001.0)
    await node.look()
    assert node.changes == 1

    node.listing = DeviceListing((), 1002.0)
    node.pods = NodePods({})
    assert await node.look() == [("free", "NoPod")]
    assert node.changes == 2


async def test_no_answer_makes_all_unknown_at_once_and_its_words_alone_are_no_change(node):
    await node.look()
    for message in ("1.2 s", "1.3 s"):
        node.listing = NoListing(HolderReason.KUBELET_SILENT, message)
        assert await node.look() == [("unknown", "KubeletSilent")]
    assert node.changes == 2


async def test_every_look_is_handed_on_whether_or_not_something_changed():
    node, seen = Node(), []
    sources = HolderSources(node.list, lambda: node.pods, lambda: node.gpus)
    follower = HoldersFollower(sources, node.changed, seen.append)
    for _ in range(2):
        await follower.look()
    assert [[each.pods for each in devices] for devices in seen] == [[{"u"}], [{"u"}]]
    assert node.changes == 1


async def test_pods_that_are_not_known_make_all_unknown(node):
    node.pods = None
    assert await node.look() == [("unknown", "PodsNotRead")]


async def test_gpus_that_are_found_later_are_looked_at(node):
    node.gpus = ()
    assert await node.look() == []
    node.gpus = (GPU,)
    assert await node.look() == [("standard", "AllStandard")]


def device(uuid="GPU-a", holders=()):
    return HeldDevice(uuid, 0, HeldAs.STANDARD, HolderReason.ALL_STANDARD, "", tuple(holders))


def test_a_report_is_bounded_and_says_how_many_holders_there_are():
    holders = [Holder("ns", f"pod-{number}", "main", None) for number in range(20)]

    found = device_reports([device(f"GPU-{number}", holders) for number in range(100)], {})

    assert len(found) == 64
    assert (len(found[0].holders), found[0].holder_count) == (8, 20)
    assert found[0].holders[0].workload_class is HolderClass.UNKNOWN


def test_names_beyond_the_schema_are_cut():
    found = device_reports([device(holders=[Holder("n" * 500, "p" * 500, "c" * 500, WorkloadClass.STANDARD)])], {})

    assert len(found[0].holders[0].pod) == 253
    assert found[0].holders[0].workload_class is HolderClass.STANDARD


def test_power_stays_as_it_was_where_the_nodes_power_was_not_written_anew():
    before = device_reports([device()], {"GPU-a": 100.123})

    assert before[0].watts == 100.12
    assert device_reports([device()], {"GPU-a": 200.0}, before)[0].watts == 100.12
    assert device_reports([device("GPU-b")], {"GPU-b": 200.0}, before)[0].watts == 200.0
    assert device_reports([device()], {})[0].watts is None


def limited(clock_mhz, saved):
    now = ClassLimitNow(clock_bound="none", saved_watts=BandReport(lower=saved, upper=saved))
    return {"GPU-a": ClassLimitReport(reason="ClockLimited", clock_mhz=clock_mhz, now=now)}


def test_what_a_limit_would_change_is_as_old_as_the_power_and_the_limit_itself_is_not():
    before = device_reports([device()], {"GPU-a": 100.0}, limits=limited(1200, 10.0))

    same = device_reports([device()], {"GPU-a": 200.0}, before, limited(1200, 20.0))
    assert same == before
    other = device_reports([device()], {"GPU-a": 200.0}, before, limited(1300, 20.0))
    assert (other[0].class_limit, other[0].watts) == (limited(1300, 20.0)["GPU-a"], 100.0)
    later = device_reports([device()], {"GPU-a": 200.0}, (), limited(1200, 20.0))
    assert later[0].class_limit.now.saved_watts.upper == 20.0
    assert device_reports([device()], {}, before)[0].class_limit is None


async def test_the_pods_are_those_of_the_last_look(node):
    assert node.follower.pods() is None
    await node.look()
    pods = node.pods
    node.pods = NodePods({})
    assert node.follower.pods() is pods


async def test_a_look_is_recent_for_a_while_and_tells_those_who_asked_last(node):
    seen = []
    node.follower.when_looked(lambda found: seen.append(found == node.follower.current()))
    assert node.follower.recent(1e6) is None
    await node.look()
    assert node.follower.recent(1e6) == node.follower.current()
    assert node.follower.recent(-1.0) is None
    await node.look()
    assert seen == [True, True]


async def test_a_process_outside_of_pods_is_seen_at_the_next_look(node):
    assert await node.look() == [("standard", "AllStandard")]
    node.users = {"GPU-a": DeviceUsers(outside_pid=7)}
    assert await node.look() == [("outside", "OutsideProcess")]
    node.users = {"GPU-a": DeviceUsers(frozenset({"u"}))}
    assert await node.look() == [("standard", "AllStandard")]
    node.users = {}
    assert await node.look() == [("unknown", "ProcessesUnknown")]
