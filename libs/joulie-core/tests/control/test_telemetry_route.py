"""Routing precedence, generated profiles and endpoint substitution: docs/decisions/0013-conventions.md."""

import itertools

import pytest

from joulie_core.control.telemetry_route import (
    GENERATED_SPEC,
    HOST_ROUTE,
    Route,
    RoutingProfile,
    endpoint_url,
    fingerprint,
    generated_spec,
    is_generated,
    route,
)
from joulie_core.kinds.telemetry_profile import (
    ControlType,
    CpuControl,
    HttpEndpoint,
    SourceType,
    TelemetryControls,
    TelemetryProfileSpec,
    TelemetrySource,
    TelemetrySources,
)
from joulie_core.labels import MANAGED_BY
from joulie_core.names import NodeName
from joulie_core.node import Node

NODE = Node(name=NodeName("n1"), labels={"pool": "a", "zone": "z"})


def profile(name, target, *, created_at="2026-01-01T00:00:00Z", controls=True, sources=True):
    spec = {"target": target}
    http = {"type": "http", "http": {"endpoint": f"http://{name}"}}
    if controls:
        spec["controls"] = {"cpu": http, "gpu": http}
    if sources:
        spec["sources"] = {"cpu": http, "gpu": http}
    return RoutingProfile(name=name, created_at=created_at, spec=TelemetryProfileSpec.model_validate(spec))


def chosen(*profiles, default=HOST_ROUTE):
    """Name of the profile that routes CPU controls, the same in every order of the profiles."""
    answers = {route(NODE, order, default).cpu_control for order in itertools.permutations(profiles)}
    (answer,) = answers
    return answer.http.endpoint.removeprefix("http://") if answer.http else answer.type.value


OF_NODE = {"scope": "node", "nodeName": "n1"}
ALL = {"scope": "cluster"}
POOL = {"scope": "cluster", "nodeSelector": {"pool": "a"}}
POOL_ZONE = {"scope": "cluster", "nodeSelector": {"pool": "a", "zone": "z"}}


def test_without_anything_the_host_serves():
    assert route(NODE, []) == HOST_ROUTE
    assert HOST_ROUTE.cpu_control.type is ControlType.HOST


def test_the_environment_serves_where_no_profile_applies():
    other = profile("other", {"scope": "node", "nodeName": "n2"})
    mine = Route(HOST_ROUTE.cpu_source, HOST_ROUTE.gpu_source, CpuControl(type="none"), HOST_ROUTE.gpu_control)
    assert chosen(other, default=mine) == "none"


def test_a_profile_of_the_node_wins_over_every_cluster_profile():
    assert chosen(profile("own", OF_NODE), profile("zone", POOL_ZONE), profile("all", ALL)) == "own"


def test_the_most_specific_selector_wins():
    assert chosen(profile("pool", POOL), profile("zone", POOL_ZONE), profile("all", ALL)) == "zone"


def test_a_selector_that_does_not_match_is_passed_over():
    strict = {"scope": "cluster", "nodeSelector": {"pool": "a", "zone": "other"}}
    assert chosen(profile("strict", strict), profile("pool", POOL)) == "pool"


def test_of_equally_specific_profiles_the_oldest_wins():
    young = profile("a-young", POOL, created_at="2026-01-02T00:00:00Z")
    old = profile("b-old", {"scope": "cluster", "nodeSelector": {"zone": "z"}}, created_at="2026-01-01T00:00:00Z")
    assert chosen(young, old) == "b-old"


def test_equally_old_profiles_are_ordered_by_name():
    assert chosen(profile("b", ALL), profile("a", ALL)) == "a"


def test_a_part_that_a_profile_leaves_out_comes_from_the_next_one():
    own = profile("own", OF_NODE, sources=False)
    answer = route(NODE, [own, profile("all", ALL)])
    assert answer.cpu_control.http.endpoint == "http://own"
    assert answer.cpu_source.http.endpoint == "http://all"


def test_a_generated_profile_is_recognised_until_somebody_edits_it():
    spec = generated_spec(NODE.name, HOST_ROUTE)
    labels, annotations = {MANAGED_BY: "joulie-agent"}, {GENERATED_SPEC: fingerprint(spec)}
    assert is_generated(labels, annotations, spec)
    edited = spec.model_copy(update={"controls": TelemetryControls(cpu=CpuControl(type="none"))})
    assert not is_generated(labels, annotations, edited)
    assert not is_generated({}, annotations, spec)
    assert not is_generated(labels, {}, spec)


def test_a_generated_profile_is_recognised_after_the_api_server_filled_in_or_dropped_defaults():
    spec = generated_spec(NODE.name, HOST_ROUTE)
    bare = TelemetryProfileSpec.model_validate(spec.model_dump(mode="json", by_alias=True, exclude_defaults=True))
    full = TelemetryProfileSpec.model_validate(spec.model_dump(mode="json", by_alias=True))
    assert fingerprint(bare) == fingerprint(full) == fingerprint(spec)


def test_the_home_profile_copies_what_applies():
    source = TelemetrySource(type=SourceType.HTTP, http=HttpEndpoint(endpoint="http://sim/telemetry/{node}"))
    served = Route(source, source, HOST_ROUTE.cpu_control, HOST_ROUTE.gpu_control)
    spec = generated_spec(NODE.name, served)
    assert spec.sources == TelemetrySources(cpu=source, gpu=source)
    assert spec.target.node_name == "n1"
    assert route(NODE, [RoutingProfile("n1", "", spec)]) == served


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://sim:1/telemetry/{node}", "http://sim:1/telemetry/n1"),
        ("http://{node}.sim/x?of={node}", "http://n1.sim/x?of=n1"),
        ("http://sim:1", "http://sim:1/telemetry/n1"),
        ("http://sim:1/", "http://sim:1/telemetry/n1"),
        ("http://sim:1/fixed", "http://sim:1/fixed"),
    ],
)
def test_the_node_is_substituted_and_a_bare_address_gets_the_standard_path(endpoint, url):
    assert endpoint_url(endpoint, NODE.name, "/telemetry/{node}") == url
