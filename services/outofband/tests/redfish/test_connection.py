"""Requests as they are sent, and hostile answers, at the level of HTTP."""

import asyncio
import gzip
import json
from base64 import b64decode

import pytest
from aiohttp import web
from services.outofband.tests.redfish.scripted import SESSION, SESSIONS, SYSTEM, scripted

from joulie_outofband.reasons import BmcError, BmcReason
from joulie_outofband.redfish.connection import MOST_BYTES


async def failure(call):
    with pytest.raises(BmcError) as caught:
        await call
    assert str(caught.value).isprintable()
    assert not any(each in str(caught.value) for each in ("calvin", "token-1"))
    return caught.value


def body(raw, **how):
    return lambda _: web.Response(body=raw, content_type="application/json", **how)


# --- hostile answers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        b'{"Model": "PowerEdge \xae"}',
        b"[" * 20_000,
        b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
        b'{"a": "\xed\xa0\x80"}',
        b'{"a": 1',
        b"null",
        b"\xff\xfe{}",
    ],
    ids=["latin 1", "deep list", "deep objects", "surrogate", "cut off", "null", "utf-16"],
)
async def test_an_answer_that_no_decoder_takes_is_malformed(raw):
    async with scripted(body(raw)) as (_, connection):
        error = await failure(connection.get(SYSTEM))
    assert (error.reason, SYSTEM in str(error)) == (BmcReason.MALFORMED, True)


async def test_an_answer_up_to_the_limit_is_read_and_a_longer_one_is_malformed():
    fits = b"{" + b" " * (MOST_BYTES - 2) + b"}"
    async with scripted(body(fits)) as (_, connection):
        assert (await connection.get(SYSTEM)).body == {}
    async with scripted(body(fits + b" ")) as (_, connection):
        assert (await failure(connection.get(SYSTEM))).reason is BmcReason.MALFORMED


async def test_a_compressed_answer_is_not_asked_for_and_not_unpacked():
    bomb = gzip.compress(b" " * (8 * MOST_BYTES))
    async with scripted(body(bomb, headers={"Content-Encoding": "gzip"})) as (script, connection):
        assert (await failure(connection.get(SYSTEM))).reason is BmcReason.MALFORMED
        assert script.asked[0].headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("status", [400, 404])
async def test_the_page_of_an_error_is_its_status(status):
    async with scripted(lambda _: web.Response(status=status, body=b"\xff<html>")) as (_, connection):
        error = await failure(connection.get(SYSTEM))
    assert (error.reason, str(error)) == (BmcReason.REFUSED, f"{SYSTEM}: {status}")


async def test_an_answer_that_does_not_come_in_time_ends_the_request():
    ended = asyncio.Event()

    async def late(_):
        await ended.wait()
        return web.Response()

    async with scripted(late, request_timeout_s=0.05) as (_, connection):
        async with asyncio.timeout(30):
            error = await failure(connection.get(SYSTEM))
        ended.set()
    assert error.reason is BmcReason.TIMED_OUT
    assert str(error).endswith(": no answer within 0.05 s (BMC_REQUEST_TIMEOUT)")


@pytest.mark.parametrize("tag", ['"a\r\nX: 1"', "\x9b", "ü", "", "x" * 2000, 7, ["x"]])
async def test_a_tag_that_cannot_be_sent_is_none(tag):
    async with scripted({"@odata.etag": tag}) as (script, connection):
        assert (await connection.get(SYSTEM)).tag is None
        await connection.patch(SYSTEM, {})
    assert [each.tag for each in script.asked if each.method == "PATCH"] == [None]


@pytest.mark.parametrize(
    "link",
    ["/redfish/v1/a\r\nX: 1", "/redfish/v1/ü", "/redfish/v1/a b", "/redfish/v1/" + "a" * 1024, "/redfish/v2", ""],
)
async def test_a_link_that_cannot_be_sent_is_not_followed(link):
    async with scripted({}) as (script, connection):
        assert (await failure(connection.get(link))).reason is BmcReason.MALFORMED
    assert script.asked == []


async def test_a_redirect_with_credentials_is_not_followed():
    async with scripted({}) as (other, _):
        elsewhere = {"Location": f"{other.address}{SYSTEM}"}
        async with scripted(lambda _: web.Response(status=307, headers=elsewhere)) as (_, connection):
            error = await failure(connection.get(SYSTEM))
        async with scripted({}) as (script, connection):
            script.login = lambda: web.Response(status=307, headers={"Location": f"{other.address}{SESSIONS}"})
            await connection.get(SYSTEM)
    assert (error.reason, str(error), other.requests) == (BmcReason.REFUSED, f"{SYSTEM}: 307", [])


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ({"error": {"code": "Base.1.0.GeneralError"}}, " Base.1.0.GeneralError"),
        ({"error": {"code": "A", "@Message.ExtendedInfo": [{"MessageId": "B"}, {"MessageId": "A"}, 3]}}, " A B"),
        ({"error": {"code": {"a": [1]}, "@Message.ExtendedInfo": [{"MessageId": "B"}]}}, " B"),
        ({"error": {"@Message.ExtendedInfo": {"MessageId": "B"}}}, ""),
        ({"error": {"code": "A", "@Message.ExtendedInfo": [{"MessageId": each} for each in "BCDE"]}}, " A B C D"),
        ({"error": {"code": "A" * 101}}, " " + "A" * 100),
        ({"error": {"code": "A\x9b\x7f"}}, " A\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"),
        ({"error": [1]}, ""),
        ({}, ""),
    ],
)
async def test_the_message_has_the_codes_of_the_error(content, code):
    async with scripted(lambda _: web.json_response(content, status=400)) as (_, connection):
        error = await failure(connection.get(SYSTEM))
    assert (error.reason, str(error)) == (BmcReason.REFUSED, f"{SYSTEM}: 400{code}")


@pytest.mark.parametrize(
    ("status", "content", "reason"),
    [
        (400, {"error": {"code": "Dell.LicenseKeyRequired"}}, BmcReason.LICENCE_MISSING),
        (403, {}, BmcReason.UNAUTHORIZED),
        (423, {}, BmcReason.BUSY),
        (429, {}, BmcReason.BUSY),
        (503, {}, BmcReason.BUSY),
        (500, {}, BmcReason.FAILED),
        (502, {}, BmcReason.FAILED),
        (501, {}, BmcReason.REFUSED),
        (499, {}, BmcReason.REFUSED),
        (300, {}, BmcReason.REFUSED),
    ],
)
async def test_a_status_has_its_reason(status, content, reason):
    async with scripted(lambda _: web.json_response(content, status=status)) as (_, connection):
        assert (await failure(connection.get(SYSTEM))).reason is reason


@pytest.mark.parametrize(("value", "expected_s"), [("7", 7.0), ("9" * 400, float("inf")), ("²", None), ("", None)])
async def test_retry_after_is_seconds_or_unknown(value, expected_s):
    answer = {"headers": {"Retry-After": value}, "status": 503}
    async with scripted(lambda _: web.Response(**answer)) as (_, connection):
        assert (await failure(connection.get(SYSTEM))).retry_after_s == expected_s
    async with scripted(lambda _: web.Response(status=503)) as (_, connection):
        assert (await failure(connection.get(SYSTEM))).retry_after_s is None


# --- requests ---------------------------------------------------------------------------------------------------------


async def test_the_first_request_logs_in_and_the_token_is_sent_with_the_next():
    async with scripted({"PowerState": "On"}) as (script, connection):
        answer = await connection.get(SYSTEM)
        login, read = script.requests
        await connection.close()
        logout = script.requests[-1]
    assert (answer.status, answer.body) == (200, {"PowerState": "On"})
    assert (login.method, login.path) == ("POST", SESSIONS)
    assert json.loads(login.body) == {"UserName": "root", "Password": "calvin"}
    assert "X-Auth-Token" not in login.headers
    assert (read.method, read.path, read.headers["X-Auth-Token"], read.body) == ("GET", SYSTEM, "token-1", b"")
    assert (read.headers["Accept"], read.headers["OData-Version"]) == ("application/json", "4.0")
    assert "Content-Type" not in read.headers
    assert (logout.method, logout.path, logout.headers["X-Auth-Token"]) == ("DELETE", SESSION, "token-1")
    assert not any("Authorization" in each.headers for each in script.requests)


async def test_a_closed_connection_logs_in_again_and_is_closed_once():
    async with scripted({}) as (script, connection):
        await connection.close()
        assert script.requests == []
        await connection.get(SYSTEM)
        await connection.close()
        await connection.close()
        await connection.get(SYSTEM)
    assert [each.method for each in script.requests] == ["POST", "GET", "DELETE", "POST", "GET"]


@pytest.mark.parametrize(
    "location",
    [
        SESSION,
        f"https://bmc-17.example.org{SESSION}",
        f"https://bmc-17.example.org:8443{SESSION}?x=1#y",
        f"//10.0.0.99{SESSION}",
        f"http://[fd00::1]{SESSION}",
        "http://[not an address",
        "https://[::1/redfish/v1/SessionService/Sessions/1",
        "1",
        "/",
        None,
    ],
)
async def test_the_session_is_deleted_at_this_bmc_whatever_its_location_is_called(location):
    async with scripted({}) as (script, connection):
        headers = {"X-Auth-Token": "t"} | ({} if location is None else {"Location": location})
        script.login = lambda: web.json_response({"@odata.id": SESSION}, headers=headers)
        await connection.get(SYSTEM)
        await connection.close()
    assert (script.requests[-1].method, script.requests[-1].path) == ("DELETE", SESSION)


async def test_a_session_without_a_place_is_left_to_its_timeout():
    async with scripted({}) as (script, connection):
        script.login = lambda: web.json_response({"@odata.id": ["x"]}, headers={"X-Auth-Token": "t"})
        await connection.get(SYSTEM)
        await connection.close()
    assert [each.method for each in script.requests] == ["POST", "GET"]


@pytest.mark.parametrize(
    "login",
    [
        lambda: web.Response(status=404),
        lambda: web.Response(status=300, headers={"X-Auth-Token": "t"}),
        lambda: web.Response(status=199 + 200, headers={"X-Auth-Token": "t"}),
        lambda: web.json_response({}),
        lambda: web.json_response({}, headers={"X-Auth-Token": "t\xe9"}),
    ],
    ids=["no sessions", "choices", "moved", "no token", "latin 1 token"],
)
async def test_without_a_session_each_request_has_the_credentials_and_none_is_made_again(login):
    async with scripted({}) as (script, connection):
        script.login = login
        await connection.get(SYSTEM)
        await connection.get(SYSTEM)
        await connection.close()
    assert [each.method for each in script.requests] == ["POST", "GET", "GET"]
    for each in script.asked:
        kind, _, encoded = each.headers["Authorization"].partition(" ")
        assert (kind, b64decode(encoded)) == ("Basic", b"root:calvin")


async def test_a_session_that_ended_is_made_once_more_and_then_the_refusal_stands():
    async with scripted(lambda _: web.Response(status=401)) as (script, connection):
        assert (await failure(connection.get(SYSTEM))).reason is BmcReason.UNAUTHORIZED
    assert [each.method for each in script.requests] == ["POST", "GET", "POST", "GET"]


async def test_an_action_is_requested_again_as_it_was_when_the_session_had_ended():
    async with scripted(lambda asked: web.Response(status=401 if asked.headers["X-Auth-Token"] == "1" else 204)) as (
        script,
        connection,
    ):
        tokens = iter("12")
        script.login = lambda: web.json_response({}, headers={"X-Auth-Token": next(tokens), "Location": SESSION})
        await connection.post(SYSTEM, {"ResetType": "On"})
    assert [(each.method, each.path, json.loads(each.body)) for each in script.asked] == [
        ("POST", SYSTEM, {"ResetType": "On"})
    ] * 2
    assert [each.headers["X-Auth-Token"] for each in script.asked] == ["1", "2"]


async def test_a_session_that_ended_and_cannot_be_made_again_is_replaced_by_the_credentials():
    async with scripted(lambda asked: web.Response(status=401 if "X-Auth-Token" in asked.headers else 200)) as (
        script,
        connection,
    ):
        logins = iter([web.json_response({}, headers={"X-Auth-Token": "1"}), web.Response(status=503)])
        script.login = lambda: next(logins)
        await connection.get(SYSTEM)
    assert [sorted(each.headers.keys() & {"Authorization", "X-Auth-Token"}) for each in script.asked] == [
        ["X-Auth-Token"],
        ["Authorization"],
    ]


async def test_credentials_that_are_refused_are_not_repeated():
    async with scripted(lambda _: web.Response(status=401)) as (script, connection):
        script.login = lambda: web.Response(status=401)
        assert (await failure(connection.get(SYSTEM))).reason is BmcReason.UNAUTHORIZED
    assert [each.method for each in script.requests] == ["POST", "GET"]


async def test_an_action_has_its_body_and_never_a_tag():
    async with scripted({"@odata.etag": '"1"'}) as (script, connection):
        await connection.get(SYSTEM)
        await connection.post(f"{SYSTEM}/Actions/Reset", {"ResetType": "On"})
    action = script.requests[-1]
    assert (action.method, action.path, json.loads(action.body)) == (
        "POST",
        f"{SYSTEM}/Actions/Reset",
        {"ResetType": "On"},
    )
    assert (action.tag, action.headers["Content-Type"]) == (None, "application/json")


async def test_a_refused_action_is_an_error():
    async with scripted(lambda _: web.Response(status=400)) as (_, connection):
        error = await failure(connection.post(SYSTEM, {}))
    assert (error.reason, str(error)) == (BmcReason.REFUSED, f"{SYSTEM}: 400")


class Tagged:
    """A resource with one tag after the other, which takes a PATCH with one of `takes` only."""

    def __init__(self, *tags, takes=(), refusal=412):
        self.tags, self.takes, self.refusal = [*tags], takes, refusal

    def __call__(self, asked):
        if asked.method == "GET":
            tag = self.tags.pop(0) if len(self.tags) > 1 else self.tags[0]
            return web.json_response({} if tag is None else {"@odata.etag": tag})
        return web.Response(status=200 if asked.tag in self.takes else self.refusal)


@pytest.mark.parametrize(
    ("resource", "sent"),
    [
        (Tagged('W/"1"', takes=['W/"1"']), ['W/"1"']),
        (Tagged('W/"1"', takes=['"1"']), ['W/"1"', '"1"']),
        (Tagged('W/"1"', 'W/"2"', takes=['W/"2"']), ['W/"1"', '"1"', 'W/"2"']),
        (Tagged('"1"', '"2"', takes=['"2"']), ['"1"', '"2"']),
        (Tagged('"1"', takes=[None]), ['"1"', '"1"', "*", None]),
        (Tagged('W/"1"', 'W/"2"', 'W/"3"', takes=["*"]), ['W/"1"', '"1"', 'W/"2"', "*"]),
        (Tagged(None, takes=["*"], refusal=428), [None, "*"]),
        (Tagged(None, takes=[None]), [None]),
    ],
    ids=["first", "strong", "moved", "strong moved", "without", "moves with every answer", "any", "untagged"],
)
async def test_the_forms_of_a_tag_are_tried_one_after_the_other(resource, sent):
    async with scripted(resource) as (script, connection):
        await connection.patch(SYSTEM, {"a": 1})
    patches = [each for each in script.asked if each.method == "PATCH"]
    assert [each.tag for each in patches] == sent
    assert all((each.path, json.loads(each.body)) == (SYSTEM, {"a": 1}) for each in patches)


async def test_the_tag_of_the_header_is_sent_and_not_that_of_the_body():
    answer = {"body": b'{"@odata.etag": "2"}', "content_type": "application/json", "headers": {"ETag": '"1"'}}
    async with scripted(lambda _: web.Response(**answer)) as (script, connection):
        await connection.patch(SYSTEM, {})
    assert script.asked[-1].tag == '"1"'


async def test_a_resource_that_takes_no_form_of_its_tag_is_named():
    async with scripted(Tagged('W/"1"')) as (_, connection):
        error = await failure(connection.patch(SYSTEM, {}))
    assert (error.reason, str(error)) == (BmcReason.TAG_REFUSED, f"PATCH {SYSTEM}: 412 with every form of the tag")


async def test_a_patch_that_is_refused_for_something_else_is_not_repeated():
    async with scripted(Tagged('"1"', refusal=400)) as (script, connection):
        error = await failure(connection.patch(SYSTEM, {}))
    assert (error.reason, str(error)) == (BmcReason.REFUSED, f"{SYSTEM}: 400")
    assert len([each for each in script.asked if each.method == "PATCH"]) == 1


async def test_a_slash_at_the_end_of_the_address_is_not_doubled():
    async with scripted({}) as (script, connection):
        again = type(connection)(connection._session, f"{script.address}/", connection._access, request_timeout_s=5.0)
        await again.get(SYSTEM)
    assert script.requests[-1].path == SYSTEM


async def test_credentials_are_not_in_the_representation_of_an_access():
    async with scripted({}) as (_, connection):
        assert "calvin" not in repr(connection._access)
