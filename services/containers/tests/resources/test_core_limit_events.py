"""Events of pods whose containers have cores with a limit that was not lifted in time."""

import pytest

from joulie_containers.resources.core_limit_events import CoreLimitEvents
from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown, PodSlowdown, SlowdownSource
from joulie_core.class_caps.pod_consent import UNKNOWN_CONSENT, PodConsent
from joulie_core.containers.container import ContainerId
from joulie_core.containers.idset import Cpus
from joulie_core.containers.policy import Placement
from joulie_testing.core.containers import container

NONE, TENTH, QUARTER, HALF = AllowedSlowdown
A, B = Cpus.parse("0,4"), Cpus.parse("1,5")


class Node:
    """Containers by name with their CPUs and what their pods allow, and what was recorded."""

    def __init__(self):
        self.recorded, self.cpus, self.allowed = [], {}, {}
        self.events = CoreLimitEvents(
            lambda info, reason, message: self.recorded.append((info.id, reason, message)),
            lambda pod: self.allowed.get(pod.name, UNKNOWN_CONSENT),
        )

    def allow(self, name, slowdown, *, consents=True):
        self.allowed[name] = PodConsent(PodSlowdown(slowdown, SlowdownSource.NAMESPACE), consents)

    def note(self, left, *, unplaced=()):
        placements = {
            ContainerId(name): Placement(zone="z", cpus=None if cpus is None else Cpus.parse(cpus))
            for name, cpus in self.cpus.items()
        }
        self.events.note(left, {name: container(name) for name in [*placements, *unplaced]}, placements)
        told, self.recorded = self.recorded, []
        return told

    def names(self, left, **options):
        return [name for name, *_ in self.note(left, **options)]


@pytest.fixture
def node():
    return Node()


def test_the_containers_on_the_cores_whose_pods_do_not_allow_the_limit_are_told(node):
    node.cpus = {"beside": "4", "elsewhere": "1,5", "unknown": "0"}
    node.allow("beside", NONE)
    message = "CPUs 0,4 have a limit by class that its pod does not allow, and that was not lifted in time"
    assert node.note({A: QUARTER}) == [
        ("beside", "ClassLimitNotLifted", message),
        ("unknown", "ClassLimitNotLifted", message),
    ]


def test_a_pod_that_allows_as_much_is_not_told_and_one_that_allows_less_or_whose_owner_has_not_consented_is(node):
    node.cpus = dict.fromkeys(("more", "same", "less", "default"), "0,4")
    node.allow("more", HALF)
    node.allow("same", QUARTER)
    node.allow("less", TENTH)
    node.allow("default", QUARTER, consents=False)
    assert node.names({A: QUARTER}) == ["default", "less"]


def test_a_container_without_cpus_of_its_own_may_run_on_the_cores(node):
    node.cpus = {"anywhere": None}
    assert node.names({A: QUARTER}, unplaced=["late"]) == ["anywhere", "late"]


def test_a_container_is_told_once_of_the_same_cores(node):
    node.cpus = {"a": "0-1"}
    assert node.names({A: QUARTER}) == ["a"]
    assert node.names({A: QUARTER}) == []
    assert node.names({A: QUARTER, B: HALF}) == ["a"]
    assert node.names({}) == []
    assert node.names({A: QUARTER, B: HALF}) == []
    node.cpus["b"] = "5"
    assert node.names({A: QUARTER, B: HALF}) == ["b"]


def test_a_container_with_the_id_of_one_that_is_gone_is_told_again(node):
    node.cpus = {"a": "0"}
    assert node.names({A: QUARTER}) == ["a"]
    node.cpus = {}
    assert node.names({A: QUARTER}) == []
    node.cpus = {"a": "0"}
    assert node.names({A: QUARTER}) == ["a"]


def test_cores_are_told_in_the_order_of_their_cpus(node):
    node.cpus = {"b": "0-1", "a": "1"}
    assert [(name, message.split()[1]) for name, _, message in node.note({B: HALF, A: QUARTER})] == [
        ("a", "1,5"),
        ("b", "0,4"),
        ("b", "1,5"),
    ]
