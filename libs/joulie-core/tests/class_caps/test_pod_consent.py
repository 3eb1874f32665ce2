"""The slowdown that a pod allows on its cores, by its annotations and as the API server has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown, PodSlowdown, SlowdownSource
from joulie_core.class_caps.held_limit import HolderPods
from joulie_core.class_caps.pod_consent import (
    TOLD_EVERY_S,
    TOLD_FOR_S,
    UNKNOWN_CONSENT,
    PodConsent,
    known_consent,
    stated_consent,
    told_consent,
)
from joulie_core.holders.records import node_pod
from joulie_core.labels import MAX_SLOWDOWN, WORKLOAD_CLASS
from joulie_core.pod import Pod

NONE, TENTH, QUARTER, HALF = AllowedSlowdown
CLASS, POD, NAMESPACE, CLUSTER = SlowdownSource
STANDARD = {WORKLOAD_CLASS: "standard"}
ON_PERFORMANCE_NODES = {"joulie.io/power-profile": "performance"}

CONSENTS = st.builds(
    PodConsent,
    st.one_of(st.none(), st.builds(PodSlowdown, st.sampled_from(AllowedSlowdown), st.sampled_from(SlowdownSource))),
    st.booleans(),
)


def consent(allowed, source, *, consents=True):
    return PodConsent(PodSlowdown(allowed, source), consents)


def told(annotations=None, namespace=None, default=NONE, *, default_is_consent=False, **pod):
    seen = Pod(namespace="ml", name="train", uid="u", annotations=annotations or {}, **pod)
    pods = HolderPods({}, {"ml": namespace}.get, default, default_is_consent)
    return told_consent(node_pod(seen), pods)


@pytest.mark.parametrize(
    ("annotations", "found"),
    [
        ({**STANDARD, MAX_SLOWDOWN: "25%"}, (QUARTER, POD, True)),
        ({**STANDARD, MAX_SLOWDOWN: "25"}, (NONE, POD, True)),
        # The Namespace was not seen, and may say something.
        (STANDARD, (NONE, NAMESPACE, False)),
        ({WORKLOAD_CLASS: "performance", MAX_SLOWDOWN: "25%"}, (NONE, CLASS, False)),
        # By its constraints it may be a performance pod.
        ({MAX_SLOWDOWN: "25%"}, None),
        ({WORKLOAD_CLASS: "fast", MAX_SLOWDOWN: "25%"}, None),
        ({}, None),
    ],
)
def test_a_pod_states_what_it_allows_beside_its_class(annotations, found):
    stated = stated_consent(annotations)
    slowdown = stated.slowdown
    assert (None if slowdown is None else (slowdown.allowed, slowdown.source, stated.consents)) == found


@pytest.mark.parametrize(
    ("annotations", "namespace", "more", "expected"),
    [
        ({MAX_SLOWDOWN: "10%"}, {MAX_SLOWDOWN: "50%"}, {}, (TENTH, POD, True)),
        ({}, {MAX_SLOWDOWN: "50%"}, {}, (HALF, NAMESPACE, True)),
        ({}, {MAX_SLOWDOWN: "0%"}, {"default": HALF, "default_is_consent": True}, (NONE, NAMESPACE, True)),
        ({}, {MAX_SLOWDOWN: "x" * 70_000}, {}, (NONE, NAMESPACE, True)),
        ({}, {}, {"default": HALF}, (HALF, CLUSTER, False)),
        ({}, {}, {"default": HALF, "default_is_consent": True}, (HALF, CLUSTER, True)),
        ({MAX_SLOWDOWN: "50%"}, {}, {"node_selector": ON_PERFORMANCE_NODES}, (NONE, CLASS, False)),
        ({**STANDARD, MAX_SLOWDOWN: "50%"}, {}, {"node_selector": ON_PERFORMANCE_NODES}, (NONE, CLASS, False)),
    ],
)
def test_the_api_servers_objects_say_what_a_pod_allows_by_the_rule_of_gpus(annotations, namespace, more, expected):
    found = told(annotations, namespace, **more)
    assert (found.slowdown.allowed, found.slowdown.source, found.consents) == expected


def test_what_is_not_known_is_no_consent():
    assert (UNKNOWN_CONSENT.slowdown, UNKNOWN_CONSENT.consents) == (None, False)


def test_a_namespace_that_was_not_seen_allows_nothing_and_an_unknown_class_is_unknown():
    assert told({}, None, HALF, default_is_consent=True).slowdown.allowed is NONE
    assert told({WORKLOAD_CLASS: "fast", MAX_SLOWDOWN: "50%"}, {}) == UNKNOWN_CONSENT


def test_what_is_told_counts_for_as_long_as_it_is_recent_where_a_pod_does_not_state_all_itself():
    by_namespace = consent(QUARTER, NAMESPACE)
    for stated in (stated_consent({}), stated_consent(STANDARD), stated_consent({MAX_SLOWDOWN: "50%"})):
        assert known_consent(stated, by_namespace, current=True) == by_namespace
        assert known_consent(stated, by_namespace, current=False) == stated
        assert known_consent(stated, None, current=True) == stated


def test_what_a_pod_states_itself_needs_nobody_who_tells():
    stated = stated_consent({**STANDARD, MAX_SLOWDOWN: "25%"})
    for current in (True, False):
        assert known_consent(stated, None, current=current) == stated
        assert known_consent(stated, consent(HALF, POD), current=current) == stated


@pytest.mark.parametrize("current", [True, False])
@pytest.mark.parametrize(
    ("found", "allowed", "consents"),
    [
        # Performance by its constraints; another annotation since; none any more, where the default is no consent.
        (consent(NONE, CLASS, consents=False), NONE, False),
        (consent(TENTH, POD), TENTH, True),
        (consent(NONE, POD), NONE, True),
        (consent(HALF, CLUSTER, consents=False), QUARTER, False),
        (consent(QUARTER, CLUSTER, consents=False), QUARTER, False),
    ],
)
def test_a_consent_that_was_withdrawn_does_not_come_back(found, allowed, consents, current):
    stated = stated_consent({**STANDARD, MAX_SLOWDOWN: "25%"})
    known = known_consent(stated, found, current=current)
    assert (known.slowdown.allowed, known.consents) == (allowed, consents)


@pytest.mark.parametrize("current", [True, False])
def test_a_pod_whose_class_is_not_known_any_more_is_unknown(current):
    stated = stated_consent({**STANDARD, MAX_SLOWDOWN: "25%"})
    assert known_consent(stated, UNKNOWN_CONSENT, current=current) == UNKNOWN_CONSENT


@given(CONSENTS, st.booleans())
def test_a_pod_that_states_to_be_of_the_class_performance_allows_nothing_whatever_is_told(found, current):
    stated = stated_consent({WORKLOAD_CLASS: "performance", MAX_SLOWDOWN: "50%"})
    known = known_consent(stated, found, current=current)
    assert known.slowdown is None or (known.slowdown.allowed, known.consents) == (NONE, False)


def test_two_of_three_times_of_telling_may_fail():
    assert TOLD_FOR_S == 3 * TOLD_EVERY_S
