"""What the page shows of one node."""

import msgspec
import pytest
from services.operator.tests.ui.invented import REFUSED, target

from joulie_api.wire import decode_node
from joulie_core import labels
from joulie_operator.cluster import Eligibility, PodLoad
from joulie_operator.published import PublishedTarget, PublishedTwin
from joulie_operator.ui.tiles import NodeTile, TileInputs, tile_of
from joulie_testing.api import make_node

NODE = decode_node(msgspec.json.encode(make_node("n1", labels={labels.RACK: "r1"})))
TWIN = PublishedTwin("eco", "2026-01-01T00:00:00Z", "uid", 310.4, 310.4, 420.0, "agent", 344.4, "redfish")


def view(**parts):
    whole = {
        "node": NODE,
        "eligibility": Eligibility.ELIGIBLE,
        "load": PodLoad(performance_pods=1, pods=3),
        "target": target("n1", "eco", "beyond demand"),
        "twin": TWIN,
    }
    return TileInputs(**(whole | parts))


def test_a_tile_has_what_the_watches_know_of_its_node():
    assert tile_of(view()) == NodeTile(
        name="n1",
        rack="r1",
        node_class="eco",
        sleep_state="",
        watts=310,
        measured=True,
        source="agent",
        server_watts=344,
        server_source="redfish",
        capped_watts=420,
        performance_pods=1,
        pods=3,
        updated=1767225600,
        reason="queue_aware_v1: beyond demand",
        problem="",
    )


def test_a_node_without_target_and_twin_is_unknown_and_not_zero():
    tile = tile_of(view(target=None, twin=None))
    assert (tile.node_class, tile.watts, tile.capped_watts, tile.updated) == ("unknown", None, None, None)
    assert (tile.reason, tile.measured, tile.source) == ("", False, "")
    assert (tile.server_watts, tile.server_source) == (None, "")


@pytest.mark.parametrize("node_class", ["", "turbo", "<b>eco</b>"])
def test_a_class_that_does_not_exist_is_unknown(node_class):
    twin = PublishedTwin(node_class, "2026-01-01T00:00:00Z", "")
    assert tile_of(view(twin=twin)).node_class == "unknown"


def test_modelled_power_is_shown_and_not_called_measured():
    tile = tile_of(view(twin=PublishedTwin("eco", "2026-01-01T00:00:00Z", "uid", None, 200.0, 420.0)))
    assert (tile.watts, tile.measured) == (200, False)


def test_a_twin_without_a_readable_time_has_no_age():
    assert tile_of(view(twin=PublishedTwin("eco", "yesterday", "uid"))).updated is None


@pytest.mark.parametrize(
    ("eligibility", "reason"),
    [
        (Eligibility.CORDONED, "cordoned: not planned"),
        (Eligibility.UNMANAGED, "not managed: reserved, or being deleted"),
    ],
)
def test_a_node_that_is_not_planned_has_that_as_its_reason(eligibility, reason):
    assert tile_of(view(eligibility=eligibility)).reason == reason


def sleeping(state):
    return decode_node(msgspec.json.encode(make_node("n1", labels={labels.SLEEP_STATE: state})))


@pytest.mark.parametrize(("state", "watts", "source"), [("asleep", None, ""), ("waking", 310, "agent")])
def test_a_node_that_sleeps_has_its_state_and_no_watts_of_a_node_that_is_on(state, watts, source):
    tile = tile_of(view(node=sleeping(state), eligibility=Eligibility.CORDONED))
    assert (tile.sleep_state, tile.watts, tile.source) == (state, watts, source)
    assert (tile.server_watts, tile.server_source) == (344, "redfish")
    assert tile.reason == f"{state}: not planned while it is not awake"


def test_a_refusal_is_shown_with_the_reason_of_the_agent():
    tile = tile_of(view(target=target("n1", conditions=[REFUSED])))
    assert tile.problem == "PermissionDenied: cpu: rapl error, cannot write"


def test_a_target_that_makes_no_sense_gives_no_reason():
    assert tile_of(view(target=PublishedTarget(None, "uid"))).reason == ""
