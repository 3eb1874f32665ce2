"""What pods allow, as the resource manager knows it."""

import pytest

from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_containers.resources.pod_consents import MOST_PODS, PodConsents
from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown, PodSlowdown, SlowdownSource
from joulie_core.class_caps.pod_consent import TOLD_FOR_S, UNKNOWN_CONSENT, PodConsent
from joulie_core.containers.container import PodInfo, PodSandboxId, QosClass
from joulie_core.labels import MAX_SLOWDOWN, WORKLOAD_CLASS

BY_NAMESPACE = PodConsent(PodSlowdown(AllowedSlowdown.QUARTER, SlowdownSource.NAMESPACE), consents=True)


class Now:
    s = 1000.0

    def __call__(self):
        return self.s


@pytest.fixture
def now():
    return Now()


@pytest.fixture
def consents(now):
    return PodConsents(clock=now)


def pod(name="a", namespace="ml", uid="u", **annotations):
    return PodInfo(
        id=PodSandboxId("s"),
        uid=uid,
        namespace=namespace,
        name=name,
        qos=QosClass.BURSTABLE,
        annotations=annotations,
    )


def entry(name="a", *, namespace="ml", uid="u", allowed="25%", source="namespace", consents=True):
    return pb.PodConsent(namespace=namespace, pod=name, pod_uid=uid, allowed=allowed, source=source, consents=consents)


def test_what_is_told_counts_for_the_very_pod(consents):
    consents.tell([entry()])
    assert consents.of(pod()) == BY_NAMESPACE
    for other in (pod(name="b"), pod(namespace="other"), pod(uid="v")):
        assert consents.of(other) == UNKNOWN_CONSENT


def test_what_is_told_replaces_what_was_told(consents):
    consents.tell([entry(), entry("b")])
    consents.tell([entry("b")])
    assert (consents.of(pod()), consents.of(pod("b"))) == (UNKNOWN_CONSENT, BY_NAMESPACE)
    assert consents.told == 1


def test_what_is_told_ends_unless_it_is_told_again(consents, now):
    assert not consents.current
    consents.tell([entry()])
    now.s += TOLD_FOR_S - 1
    assert consents.current
    consents.tell([entry()])
    now.s += TOLD_FOR_S - 1
    assert consents.of(pod()) == BY_NAMESPACE
    now.s += 1
    assert not consents.current
    assert consents.of(pod()) == UNKNOWN_CONSENT


def test_what_a_pod_says_itself_counts_without_being_told(consents):
    found = consents.of(pod(**{WORKLOAD_CLASS: "standard", MAX_SLOWDOWN: "10%"}))
    assert found == PodConsent(PodSlowdown(AllowedSlowdown.TENTH, SlowdownSource.POD), consents=True)


@pytest.mark.parametrize(
    "bad",
    [
        entry(allowed="30%"),
        entry(allowed="9" * 100_000),
        entry(source="user"),
        entry(source=""),
        entry(name="x" * 254),
        entry(namespace=""),
        entry(uid=""),
        pb.PodConsent(),
    ],
)
def test_an_entry_that_cannot_be_read_says_nothing_and_stops_no_other(consents, bad):
    consents.tell([bad, entry("b")])
    assert consents.told == 1
    assert consents.of(pod()) == UNKNOWN_CONSENT
    assert consents.of(pod("b")) == BY_NAMESPACE


def test_a_class_that_is_not_known_is_told(consents):
    consents.tell([entry(allowed="", source="", consents=False)])
    assert consents.told == 1
    assert consents.of(pod(**{WORKLOAD_CLASS: "standard", MAX_SLOWDOWN: "10%"})) == UNKNOWN_CONSENT


def test_a_bounded_number_of_pods_is_kept(consents):
    consents.tell(entry(f"p{number}") for number in range(MOST_PODS + 10))
    assert consents.told == MOST_PODS
    assert consents.of(pod(f"p{MOST_PODS - 1}")) == BY_NAMESPACE
    assert consents.of(pod(f"p{MOST_PODS}")) == UNKNOWN_CONSENT


def test_the_longest_name_of_kubernetes_is_taken(consents):
    consents.tell([entry("x" * 253)])
    assert consents.of(pod("x" * 253)) == BY_NAMESPACE


def test_an_empty_allowed_slowdown_never_consents(consents):
    consents.tell([entry(allowed="")])
    assert consents.of(pod()) == UNKNOWN_CONSENT
