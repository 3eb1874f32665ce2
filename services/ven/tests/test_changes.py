"""Which PowerEvents are created, changed and deleted, and when each is renewed."""

import json
from dataclasses import replace

import pytest
from services.ven.tests.limits import LIMIT, NOW_S, SETTINGS

from joulie_api.wire import decode_kind
from joulie_core.kinds import PowerEvent
from joulie_core.timestamps import rfc3339
from joulie_ven.changes import KEPT_S, Changes, changes
from joulie_ven.objects import metadata_of, name_of, read_own, spec_of


def own_of(limit=LIMIT, renewed_before_s=0.0, version="5"):
    """Return the PowerEvent of a limit as it is stored."""
    raw = {
        "apiVersion": "joulie.io/v1alpha1",
        "kind": "PowerEvent",
        "metadata": {"name": name_of(limit), "resourceVersion": version, "uid": "u"} | metadata_of(limit),
        "spec": spec_of(limit, SETTINGS, rfc3339(NOW_S - renewed_before_s, "seconds")).dump(),
    }
    return read_own(decode_kind(PowerEvent)(json.dumps(raw).encode()))


def found(limits=(), own=(), listed=(), decided=(), now_s=NOW_S):
    return changes(limits, own, listed=frozenset(listed), decided=frozenset(decided), settings=SETTINGS, now_s=now_s)


def renewal(now_s=NOW_S, version="5"):
    return {"spec": {"sourceRenewed": rfc3339(now_s, "seconds")}, "metadata": {"resourceVersion": version}}


NOTHING = Changes({}, {}, {})


def test_a_limit_that_is_not_there_is_created_with_its_labels_and_renewed_now():
    assert found([LIMIT]) == Changes(
        {
            name_of(LIMIT): {
                "metadata": metadata_of(LIMIT),
                "spec": spec_of(LIMIT, SETTINGS, rfc3339(NOW_S, "seconds")).dump(),
            }
        },
        {},
        {},
    )


def test_a_limit_that_is_there_and_was_renewed_is_left_as_it_is():
    assert found([LIMIT], [own_of()], ["e0"], ["e0"]) == NOTHING


@pytest.mark.parametrize(("age_s", "renews"), [(0, False), (99, False), (100, True), (-1, True), (5_000, True)])
@pytest.mark.parametrize("limits", [[LIMIT], []])
def test_it_is_renewed_three_times_in_the_timeout_of_its_source(age_s, renews, limits):
    wanted = Changes({}, {name_of(LIMIT): renewal()} if renews else {}, {})
    assert found(limits, [own_of(renewed_before_s=age_s)], ["e0"]) == wanted


def test_a_change_is_written_with_a_renewal_on_the_version_that_was_read():
    lower, earlier = replace(LIMIT, watts=300_000), replace(LIMIT, seen_s=NOW_S - 90)
    wanted = renewal()
    wanted["spec"]["limitWatts"] = 300_000
    assert found([lower], [own_of()], ["e0"], ["e0"]).patch == {name_of(LIMIT): wanted}
    wanted = renewal()
    wanted["metadata"]["annotations"] = metadata_of(earlier)["annotations"]
    assert found([earlier], [own_of()], ["e0"], ["e0"]).patch == {name_of(LIMIT): wanted}


@pytest.mark.parametrize(
    ("listed", "decided", "gone"),
    [((), ("e0",), True), (("e0",), ("e0",), True), ((), (), False), (("e0",), (), False), ((), ("e1",), False)],
)
def test_what_has_not_ended_is_deleted_where_its_event_was_decided_about_and_has_it_no_more(listed, decided, gone):
    wanted = Changes({}, {}, {name_of(LIMIT): "5"} if gone else {})
    assert found([], [own_of()], listed, decided) == wanted


@pytest.mark.parametrize(
    ("after_s", "listed", "gone"),
    [(0.0, (), False), (KEPT_S, (), False), (KEPT_S + 1, (), True), (KEPT_S + 1, ("e0",), False)],
)
def test_what_has_ended_is_kept_for_a_week_and_while_its_event_is_listed_and_is_not_renewed(after_s, listed, gone):
    assert KEPT_S == 604_800
    own = own_of(renewed_before_s=5_000)
    wanted = Changes({}, {}, {name_of(LIMIT): "5"} if gone else {})
    assert found([], [own], listed, ["e0"], now_s=LIMIT.end_s + after_s) == wanted


def test_each_is_decided_by_itself():
    second, third = replace(LIMIT, event_id="e1", index=1), replace(LIMIT, event_id="e2", index=2)
    made = found([LIMIT, second], [own_of(second, 200), own_of(third, version="6")], ["e1"], ["e2"])
    assert made.create.keys() == {name_of(LIMIT)}
    assert made.patch == {name_of(second): renewal()}
    assert made.delete == {name_of(third): "6"}
