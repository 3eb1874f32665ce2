"""The condition of objects that cannot be used."""

from types import SimpleNamespace

from services.outofband.tests.doubles import NOW_S, bench, counted
from structlog.testing import capture_logs

from joulie_api.errors import ServerError
from joulie_core.timestamps import rfc3339
from joulie_outofband.rejections import FIELD_MANAGER, Rejections


def start():
    found = bench()
    found.rejections = Rejections(found.api, found.failures, wall=found.parts.wall)
    return found


def worker():
    told = []
    return SimpleNamespace(told=told, reject=told.append)


async def test_an_object_without_a_worker_has_the_condition_and_nothing_else_is_written():
    found = start()
    await found.rejections.show({"n1": "spec.address: bad\x9b"}, {})
    condition = {
        "type": "Accepted",
        "status": "False",
        "reason": "InvalidSpec",
        "message": "spec.address: bad\N{REPLACEMENT CHARACTER}",
        "lastTransitionTime": rfc3339(NOW_S, "seconds"),
    }
    assert found.api.applied == [("nodebmcs.joulie.io", "n1", {"status": {"conditions": [condition]}}, True)]
    # A name that stays: the fields of objects are owned by it.
    assert FIELD_MANAGER == "joulie-outofband-rejections"


async def test_it_is_written_once_for_each_reason_and_again_after_the_object_was_valid():
    found = start()
    for invalid in ({"n1": "a"}, {"n1": "a"}, {"n1": "b"}, {}, {"n1": "b"}):
        await found.rejections.show(invalid, {})
    assert [each[2]["status"]["conditions"][0]["message"] for each in found.api.applied] == ["a", "b", "b"]


async def test_a_worker_shows_the_condition_itself():
    found, first, second = start(), worker(), worker()
    await found.rejections.show({"n1": "a"}, {"n1": first, "n2": second})
    assert (first.told, second.told, found.api.applied) == (["a"], [None], [])
    await found.rejections.show({"n1": "a"}, {})
    assert len(found.api.applied) == 1


async def test_a_write_that_fails_is_tried_again_and_delays_no_other():
    found = start()
    found.api.failure = ServerError(500, "", "")
    await found.rejections.show({"n1": "a"}, {})
    assert counted(found.registry, "joulie_internal_errors", work="show a rejected nodebmc") == 0
    found.api.failure = ValueError("x")
    with capture_logs() as logs:
        await found.rejections.show({"n1": "a", "n2": "b"}, {})
    assert [each["node"] for each in logs] == ["n1", "n2"]
    assert counted(found.registry, "joulie_internal_errors", work="show a rejected nodebmc") == 2
    found.api.failure = None
    await found.rejections.show({"n1": "a", "n2": "b"}, {})
    assert [each[1] for each in found.api.applied] == ["n1", "n2"]
