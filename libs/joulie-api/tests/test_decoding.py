"""Tests of the place where input from outside is decoded."""

import msgspec
import pydantic
import pytest

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError


class _Kept(msgspec.Struct):
    count: int = 0
    name: str = ""


class _Model(pydantic.BaseModel):
    count: int
    names: list[str] = []


_KEPT = msgspec.json.Decoder(_Kept).decode

_DEEP = b'{"skipped":' + b"[" * 20_000 + b"]" * 20_000 + b"}"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"name":"\xe4"}',
        b'{"name":"\\ud800"}',
        b'{"count":1e400}',
        b'{"count":' + b"9" * 5000 + b"}",
        b'{"count":"1"}',
        _DEEP,
    ],
    ids=lambda raw: raw[:24].decode("latin-1"),
)
def test_every_failure_of_a_decoder_is_a_decode_error(raw: bytes) -> None:
    with pytest.raises(DecodeError, match="not a thing"):
        decode(_KEPT, raw, "thing")


def test_a_deep_value_is_named_as_such_and_keeps_no_traceback() -> None:
    with pytest.raises(DecodeError, match="not a thing: nested too deeply") as caught:
        decode(_KEPT, _DEEP, "thing")
    assert caught.value.__cause__ is not None
    assert caught.value.__cause__.__traceback__ is None


def test_a_model_names_the_field_and_not_the_value() -> None:
    with pytest.raises(DecodeError) as caught:
        decode(_Model.model_validate_json, b'{"count": "secret", "names": [1]}', "Thing x")
    count, names = caught.value.message.removeprefix("not a Thing x: ").split("; ")
    assert count.startswith("count: ")
    assert names.startswith("names.0: ")
    assert "secret" not in caught.value.message


def test_a_message_is_printable_and_bounded() -> None:
    def fail(_raw: bytes) -> None:
        raise ValueError("\x1b[2J" + "x" * 10_000)

    with pytest.raises(DecodeError) as caught:
        decode(fail, b"", "thing")
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 400


def test_a_defect_of_the_decoder_is_not_taken_for_bad_input() -> None:
    def fail(_raw: bytes) -> None:
        raise KeyError("a defect")

    with pytest.raises(KeyError):
        decode(fail, b"", "thing")
