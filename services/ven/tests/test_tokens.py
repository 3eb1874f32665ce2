"""How a token is asked for, and for how long it is used."""

import json
from types import SimpleNamespace

import pytest

from joulie_ven.reasons import VtnError, VtnReason
from joulie_ven.tokens import Tokens, VtnCredentials

URL = "https://vtn.example/api"
FORM = {"grant_type": "client_credentials", "client_id": "site-7", "client_secret": "s3cret"}


class Http:
    """Takes the place of the requests: keeps them, and answers with tokens `t1`, `t2` and so on."""

    def __init__(self):
        self.now_s = 1_000.0
        self.sent = []
        self.token = {"token_type": "Bearer", "expires_in": 3_600}
        self.server = {"tokenURL": "https://vtn.example/token"}

    async def send(self, method, url, *, form=None):
        self.sent.append((method, url, form))
        if method == "GET":
            return SimpleNamespace(body=json.dumps(self.server).encode())
        # The answer takes its time.
        self.now_s += 5.0
        count = len([each for each in self.sent if each[0] == "POST"])
        return SimpleNamespace(body=json.dumps({"access_token": f"t{count}"} | self.token).encode())


@pytest.fixture
def http():
    return Http()


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "client-id").write_text(" site-7\n")
    (tmp_path / "client-secret").write_text("s3cret")
    return tmp_path


@pytest.fixture
def tokens(http, directory):
    def make(token_url="https://auth.example/token", scope=""):
        return Tokens(
            http,
            vtn_url=URL,
            token_url=token_url,
            credentials=VtnCredentials(directory),
            scope=scope,
            clock=lambda: http.now_s,
        )

    return make


async def test_a_token_is_asked_for_once_by_the_credentials_in_the_files(http, tokens):
    found = tokens()
    assert [await found.get(), await found.get()] == ["t1", "t1"]
    assert http.sent == [("POST", "https://auth.example/token", FORM)]


async def test_a_scope_is_asked_for_where_there_is_one(http, tokens):
    await tokens(scope="read_targets write_reports").get()
    assert http.sent[0][2] == FORM | {"scope": "read_targets write_reports"}


async def test_without_a_configured_url_the_vtn_says_where_tokens_are(http, tokens):
    assert await tokens(token_url="").get() == "t1"
    assert http.sent == [("GET", f"{URL}/auth/server", None), ("POST", "https://vtn.example/token", FORM)]


@pytest.mark.parametrize("server", [{"tokenURL": "http://vtn.example/token"}, {"tokenURL": ""}, {}, []])
async def test_credentials_are_sent_to_no_url_that_is_not_secure(http, tokens, server):
    http.server = server
    with pytest.raises(VtnError) as caught:
        await tokens(token_url="").get()
    assert caught.value.reason is VtnReason.INVALID_ANSWER
    assert caught.value.message.startswith("token URL of the VTN: ")
    assert [each[0] for each in http.sent] == ["GET"]


@pytest.mark.parametrize(
    ("expires_in", "used_s"), [(3_600, 3_570.0), (301, 271.0), (300, 270.0), (60, 54.0), (1, 0.9), (0, 0.0), (-5, 0.0)]
)
async def test_a_token_is_used_until_shortly_before_its_end_counted_from_its_request(http, tokens, expires_in, used_s):
    http.token["expires_in"] = expires_in
    found = tokens()
    asked_s = http.now_s
    await found.get()
    for after_s, token in ((used_s - 0.01, "t1"), (used_s, "t2")):
        if after_s >= 0.0:
            http.now_s = asked_s + after_s
            assert await found.get() == token


async def test_a_token_without_an_end_is_used_until_the_vtn_refuses_it(http, tokens):
    http.token = {"token_type": "Bearer", "expires_in": None}
    found = tokens()
    await found.get()
    http.now_s += 1e12
    assert await found.get() == "t1"
    found.drop()
    assert await found.get() == "t2"


async def test_an_answer_that_is_no_token_is_refused(http, tokens):
    http.token = {"token_type": "mac"}
    with pytest.raises(VtnError) as caught:
        await tokens().get()
    assert (caught.value.reason, bool(caught.value.message)) == (VtnReason.INVALID_ANSWER, True)


@pytest.mark.parametrize("name", ["client-id", "client-secret"])
@pytest.mark.parametrize("content", [None, b"", b" \n", b"x" * 4_097, b"\xff"])
async def test_credentials_that_cannot_be_used_are_named_and_nothing_is_sent(http, tokens, directory, name, content):
    path = directory / name
    if content is None:
        path.unlink()
        problem = "FileNotFoundError"
    else:
        path.write_bytes(content)
        problem = "UnicodeDecodeError" if content == b"\xff" else "empty, or longer than 4096 characters"
    with pytest.raises(VtnError) as caught:
        await tokens().get()
    assert (caught.value.reason, caught.value.message) == (VtnReason.CREDENTIALS_MISSING, f"{path}: {problem}")
    assert http.sent == []


async def test_the_longest_credentials_are_used_as_they_are(http, tokens, directory):
    (directory / "client-secret").write_text("é" * 4_096 + "\n", encoding="utf-8")
    await tokens().get()
    assert http.sent[0][2]["client_secret"] == "é" * 4_096
