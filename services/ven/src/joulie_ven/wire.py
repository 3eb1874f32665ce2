"""Answers of a VTN: the only module that decodes them.

Guarantees that an answer that cannot be read is a DecodeError, that one event that cannot be read does not stop the
others, and that every list is bounded. Fields that Joulie does not read are skipped.
Source: OpenADR 3.1.0, `openadr3.yaml`, components/schemas.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_core.text import printable

#: Largest answer; a page has 50 objects at most.
MOST_BYTES: Final = 4 << 20
#: Intervals of one event: a week of half-hours is 336.
MOST_INTERVALS: Final = 1000
_MOST_PAYLOADS: Final = 64
_MOST_VALUES: Final = 64
_MOST_DESCRIPTORS: Final = 64
_MOST_TARGETS: Final = 256
#: `maxLength` of names and types in the specification.
_NAME: Final = 128
EVENT_DESCRIPTOR: Final = "EVENT_PAYLOAD_DESCRIPTOR"
_MOST_SHOWN: Final = 64

ObjectId = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]+$", max_length=_NAME)]
PayloadType = Annotated[str, Field(min_length=1, max_length=_NAME)]
Targets = Annotated[tuple[Annotated[str, Field(max_length=_NAME)], ...], Field(max_length=_MOST_TARGETS)]
#: A time or a duration; read by `joulie_ven.times`.
_Moment = Annotated[str, Field(max_length=_NAME)]
_Int32 = Annotated[int, Field(ge=-(2**31), lt=2**31)]
_OBJECT_ID: Final = TypeAdapter(ObjectId)


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, allow_inf_nan=False)


class IntervalPeriod(_Wire):
    """Start and duration, as text."""

    start: _Moment | None = None
    duration: _Moment | None = None
    randomize_start: Annotated[_Moment | None, Field(alias="randomizeStart")] = None


class Payload(_Wire):
    """Values of one type."""

    type: PayloadType
    values: Annotated[tuple[Any, ...], Field(max_length=_MOST_VALUES)]


class VtnInterval(_Wire):
    """One interval of an event."""

    id: _Int32
    interval_period: Annotated[IntervalPeriod | None, Field(alias="intervalPeriod")] = None
    payloads: Annotated[tuple[Payload, ...], Field(max_length=_MOST_PAYLOADS)]


class PayloadDescriptor(_Wire):
    """Units of the payloads of one type, of events or (in programs) of reports."""

    object_type: Annotated[str, Field(alias="objectType", max_length=_NAME)] = EVENT_DESCRIPTOR

    payload_type: Annotated[PayloadType, Field(alias="payloadType")]
    units: Annotated[str | None, Field(max_length=_NAME)] = None


class ReportDescriptor(_Wire):
    """Request for a report."""

    payload_type: Annotated[PayloadType, Field(alias="payloadType")]
    units: Annotated[str | None, Field(max_length=_NAME)] = None
    historical: bool = True


class VtnEvent(_Wire):
    """One event."""

    id: ObjectId
    program_id: Annotated[ObjectId, Field(alias="programID")]
    priority: Annotated[int, Field(ge=0)] | None = None
    targets: Targets | None = None
    duration: _Moment | None = None
    interval_period: Annotated[IntervalPeriod | None, Field(alias="intervalPeriod")] = None
    intervals: Annotated[tuple[VtnInterval, ...] | None, Field(max_length=MOST_INTERVALS)] = None
    payload_descriptors: Annotated[
        tuple[PayloadDescriptor, ...] | None, Field(alias="payloadDescriptors", max_length=_MOST_DESCRIPTORS)
    ] = None
    report_descriptors: Annotated[
        tuple[ReportDescriptor, ...] | None, Field(alias="reportDescriptors", max_length=_MOST_DESCRIPTORS)
    ] = None


class VtnProgram(_Wire):
    """One program."""

    id: ObjectId
    program_name: Annotated[str, Field(alias="programName", max_length=_NAME)]
    payload_descriptors: Annotated[
        tuple[PayloadDescriptor, ...] | None, Field(alias="payloadDescriptors", max_length=_MOST_DESCRIPTORS)
    ] = None


class Token(_Wire):
    """An access token."""

    access_token: Annotated[str, Field(pattern=r"^[!-~]+$", max_length=8192, repr=False)]
    token_type: Annotated[str, Field(pattern=r"^(?i:bearer)$")]
    #: Seconds; None where the server does not say.
    expires_in: Annotated[int, Field(le=2**31)] | None = None


class _AuthServer(_Wire):
    token_url: Annotated[str, Field(alias="tokenURL", min_length=1, max_length=8000)]


class _ReportName(_Wire):
    report_name: Annotated[str | None, Field(alias="reportName", max_length=1024)] = None


@dataclass(frozen=True, slots=True)
class UnreadableEvent:
    """An event that cannot be read; its id where that can be, else None."""

    id: str | None
    problem: str


class _Identified(msgspec.Struct):
    id: str


_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_IDENTIFIED: Final = msgspec.json.Decoder(_Identified)


def is_object_id(text: str) -> bool:
    """Return whether a VTN may have given this id to an object."""
    try:
        _OBJECT_ID.validate_python(text)
    except ValidationError:
        return False
    return True


def decode_items(raw: bytes, what: str) -> list[bytes]:
    """Return the items of an array, undecoded.

    Raises:
        DecodeError: it is no array.
    """
    return [bytes(item) for item in decode(_LIST.decode, raw, what)]


def decode_event(raw: bytes) -> VtnEvent | UnreadableEvent:
    """Return an event, or why it cannot be read."""
    try:
        return decode(VtnEvent.model_validate_json, raw, "event")
    except DecodeError as error:
        try:
            found = decode(_IDENTIFIED.decode, raw, "object with an id").id
        except DecodeError:
            return UnreadableEvent(None, error.message)
        return UnreadableEvent(printable(found, _MOST_SHOWN * 2), error.message)


def decode_program(raw: bytes) -> VtnProgram | None:
    """Return a program; None where it cannot be read."""
    try:
        return decode(VtnProgram.model_validate_json, raw, "program")
    except DecodeError:
        return None


def decode_token(raw: bytes) -> Token:
    """Return the answer of a token server.

    Raises:
        DecodeError: it is no bearer token. The message has no part of the answer.
    """
    return decode(Token.model_validate_json, raw, "token")


def decode_token_url(raw: bytes) -> str:
    """Return `tokenURL` of the answer of `/auth/server`.

    Raises:
        DecodeError: there is none.
    """
    return decode(_AuthServer.model_validate_json, raw, "answer of /auth/server").token_url


def decode_report_name(raw: bytes) -> str:
    """Return the name of a report, empty where it has none.

    Raises:
        DecodeError: it is no report.
    """
    return decode(_ReportName.model_validate_json, raw, "report").report_name or ""
