"""What is read of the PowerEvents at the API server, and each write of them."""

import pytest
from prometheus_client import CollectorRegistry
from services.ven.tests.limits import LIMIT, SETTINGS
from structlog.testing import capture_logs

from joulie_api.apply import FencedWriter
from joulie_api.errors import KubeError
from joulie_api.failures import Failures
from joulie_testing.api import Respond, make_power_event
from joulie_ven.changes import Changes
from joulie_ven.keeper import EventKeeper
from joulie_ven.objects import metadata_of, name_of, spec_of

PATH = "/apis/joulie.io/v1alpha1/powerevents"
LABELS = {"app.kubernetes.io/managed-by": "joulie-ven"}
BODY = {"metadata": metadata_of(LIMIT), "spec": spec_of(LIMIT, SETTINGS, "2027-01-15T08:00:00Z").dump()}


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def keeper(fake_client, registry):
    return EventKeeper(fake_client, FencedWriter(fake_client, "joulie-ven"), Failures(registry))


@pytest.fixture
def set_aside(registry):
    """Return how many inputs were set aside."""
    return lambda: registry.get_sample_value("joulie_invalid_input_total", {"source": "powerevents.joulie.io"}) or 0


def put(api, name, **metadata):
    stored = {"apiVersion": "joulie.io/v1alpha1", "kind": "PowerEvent", **BODY}
    stored["metadata"] = BODY["metadata"] | {"name": name} | metadata
    return api.put(stored)


async def test_only_what_has_the_label_is_read_and_what_is_not_written_by_it_holds_up_no_other(
    keeper, fake_api, set_aside
):
    for name in ("a", "e"):
        put(fake_api, name)
    fake_api.put(make_power_event("other"))
    broken = make_power_event("b", limitWatts="many")
    broken["metadata"]["labels"] = LABELS
    fake_api.put(broken)
    put(fake_api, "c", annotations={})
    found = await keeper.read()
    assert [each.name for each in found] == ["a", "e"]
    assert (found[0].event_id, found[0].kind, found[0].end_s) == (LIMIT.event_id, LIMIT.kind, LIMIT.end_s)
    assert set_aside() == 2
    (request,) = [each for each in fake_api.requests if each.path == PATH]
    assert request.query["labelSelector"] == "app.kubernetes.io/managed-by=joulie-ven"


@pytest.mark.parametrize("event_id", ["../programs", "e" * 129])
async def test_what_has_an_id_that_no_vtn_gives_is_set_aside(keeper, fake_api, set_aside, event_id):
    put(fake_api, "a", annotations=BODY["metadata"]["annotations"] | {"joulie.io/openadr-event": event_id})
    assert (await keeper.read(), set_aside()) == ([], 1)


async def test_without_power_events_none_are_read(keeper, set_aside):
    assert (await keeper.read(), set_aside()) == ([], 0)


async def test_an_api_server_that_refuses_the_list_is_an_error(keeper, fake_api):
    fake_api.faults.add(Respond(403), path=PATH, times=1)
    with pytest.raises(KubeError):
        await keeper.read()


async def test_creations_go_first_then_changes_then_deletions_on_the_versions_that_were_read(
    keeper, fake_api, set_aside
):
    changed, gone = put(fake_api, "changed"), put(fake_api, "gone")
    versions = [each["metadata"]["resourceVersion"] for each in (changed, gone)]
    patch = {"metadata": {"resourceVersion": versions[0]}, "spec": {"limitWatts": 5}}
    before = len(fake_api.requests.writes())
    assert await keeper.write(Changes({"new": BODY}, {"changed": patch}, {"gone": versions[1]})) is True
    create, change, delete = fake_api.requests.writes()[before:]
    assert (create.verb, create.path) == ("create", PATH)
    assert create.json()["metadata"] == {"name": "new"} | metadata_of(LIMIT)
    assert create.json()["spec"] == BODY["spec"]
    assert (change.verb, change.path, change.json()) == ("patch", f"{PATH}/changed", patch)
    assert change.query["fieldManager"] == "joulie-ven"
    assert (delete.verb, delete.path) == ("delete", f"{PATH}/gone")
    assert delete.json()["preconditions"] == {"resourceVersion": versions[1]}
    assert {each["metadata"]["name"] for each in fake_api.objects("PowerEvent")} == {"new", "changed"}
    assert set_aside() == 0


@pytest.mark.parametrize("failing", ["new", "changed", "gone"])
async def test_a_write_that_fails_stops_no_other(keeper, fake_api, set_aside, failing):
    for name in ("changed", "gone"):
        put(fake_api, name)
    version = fake_api.get("PowerEvent", "gone")["metadata"]["resourceVersion"]
    verb = {"new": "create", "changed": "patch", "gone": "delete"}[failing]
    fake_api.faults.add(Respond(403), verb=verb, times=1)
    before = len(fake_api.requests.writes())
    found = Changes({"new": BODY}, {"changed": {"spec": {"limitWatts": 5}}}, {"gone": version})
    assert await keeper.write(found) is False
    assert [each.verb for each in fake_api.requests.writes()[before:]] == ["create", "patch", "delete"]
    assert set_aside() == 1


async def test_what_has_changed_since_it_was_read_is_not_written(keeper, fake_api):
    put(fake_api, "a")
    version = fake_api.get("PowerEvent", "a")["metadata"]["resourceVersion"]
    fake_api.patch("PowerEvent", "a", {"spec": {"limitWatts": 7}})
    patch = {"metadata": {"resourceVersion": version}, "spec": {"limitWatts": 5}}
    assert await keeper.write(Changes({}, {"a": patch}, {})) is False
    assert await keeper.write(Changes({}, {}, {"a": version})) is False
    assert fake_api.get("PowerEvent", "a")["spec"]["limitWatts"] == 7


async def test_a_name_that_somebody_else_has_is_told_until_it_is_free(keeper, fake_api, set_aside):
    name = name_of(LIMIT)
    fake_api.put(make_power_event(name))
    found = Changes({name: BODY}, {}, {})
    with capture_logs() as lines:
        for count in (1, 2):
            assert await keeper.write(found) is False
            assert set_aside() == count
        fake_api.remove("PowerEvent", name)
        assert await keeper.write(found) is True
    label = "app.kubernetes.io/managed-by=joulie-ven"
    assert [(each["event"], each["power_event"], each.get("problem")) for each in lines] == [
        ("invalid input set aside", name, f"PowerEvent {name} exists without the label {label}: it is left alone"),
        ("input valid again", name, None),
    ]
