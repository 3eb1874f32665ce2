import pytest

from joulie_api.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    api_error,
)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (401, Unauthorized),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (410, Gone),
        (422, Invalid),
        (429, TooManyRequests),
        (500, ServerError),
        (503, ServerError),
        (405, ApiError),
    ],
)
def test_each_status_has_its_own_exception(code, kind):
    error = api_error(code, b'{"reason":"Because","message":"no"}')
    assert type(error) is kind
    assert (error.status, error.reason, error.message) == (code, "Because", "no")


def test_a_taken_name_is_a_conflict_of_its_own():
    error = api_error(409, b'{"reason":"AlreadyExists","message":"leases \\"x\\" already exists"}')
    assert type(error) is AlreadyExists
    assert isinstance(error, Conflict)


def test_the_retry_after_header_takes_precedence_over_the_body():
    body = b'{"reason":"TooManyRequests","details":{"retryAfterSeconds":3}}'
    assert api_error(429, body, retry_after_header="7").retry_after_s == 7
    assert api_error(429, body).retry_after_s == 3
    assert api_error(503, body, retry_after_header="Wed, 21 Oct 2026 07:28:00 GMT").retry_after_s == 3
    assert api_error(429, b"{}").retry_after_s == 0


def test_a_proxys_page_becomes_the_message_cut_short():
    error = api_error(502, b"<html>" + b"x" * 1000)
    assert type(error) is ServerError
    assert error.message.startswith("<html>xxx")
    assert len(error.message) == 200
    assert str(error).startswith("502: <html>")


def test_the_json_of_a_service_behind_a_proxy_becomes_the_message():
    body = b'{"status":"error","errorType":"bad_data","error":"parse error"}'
    assert api_error(400, body).message == body.decode()
    assert api_error(400, b'{"reason":"BadRequest"}').message == "no message"
