"""Requests of a VEN to a VTN: the program, its events, and reports.

Guarantees: a list that changes while its pages are read is not taken for one that lacks events (`event` says what has
become of one); a VTN that repeats a page without end is left. After a 401 one new token is tried.
Source: OpenADR 3.1.0, `openadr3.yaml`, paths.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from joulie_api.errors import DecodeError
from joulie_core.text import printable
from joulie_ven.http import VtnHttp
from joulie_ven.reasons import VtnError, VtnReason
from joulie_ven.tokens import Tokens
from joulie_ven.wire import (
    MOST_BYTES,
    UnreadableEvent,
    VtnEvent,
    VtnProgram,
    decode_event,
    decode_items,
    decode_program,
    decode_report_name,
)

#: The largest page of the specification.
PAGE: Final = 50
#: Events or programs of one list.
MOST_ITEMS: Final = 2000
_MOST_SHOWN: Final = 64
_Query = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class ReadEvents:
    """Events of one read."""

    events: dict[str, VtnEvent] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    """Why an event cannot be read, by its id, or by its place in the list where it has none."""


class Vtn:
    """One VTN; `wall` is seconds since the epoch."""

    def __init__(self, http: VtnHttp, tokens: Tokens, *, url: str, wall: Callable[[], float]) -> None:
        self._http = http
        self._tokens = tokens
        self._url = url.rstrip("/")
        self._wall = wall
        #: Seconds that the clock of the VTN is ahead of this one; None before it has said.
        self.ahead_s: float | None = None

    async def program(self, name: str, targets: Iterable[str] = ()) -> VtnProgram:
        """Return the program of that id or name.

        Raises:
            VtnError: there is none, or several of that name.
        """
        found = [decode_program(raw) for raw in await self._list("/programs", (), targets)]
        known = [each for each in found if each is not None]
        by_id = [each for each in known if each.id == name]
        matching = by_id or [each for each in known if each.program_name == name]
        if len(matching) != 1:
            shown = printable(name, _MOST_SHOWN)
            raise VtnError(VtnReason.PROGRAM_NOT_FOUND, f"{len(matching)} programs are named {shown}, must be one")
        return matching[0]

    async def events(self, program_id: str, targets: Iterable[str] = ()) -> ReadEvents:
        """Return the events of a program that have not ended by the VTN's clock.

        Raises:
            VtnError: they cannot be read.
        """
        read = ReadEvents()
        for raw in await self._list("/events", (("programID", program_id), ("active", "true")), targets):
            _add(read, decode_event(raw), f"#{len(read.events) + len(read.unreadable)}", program_id)
        return read

    async def event(self, event_id: str, into: ReadEvents, program_id: str) -> bool:
        """Read one event; return False where the VTN has none of that id.

        Raises:
            VtnError: it cannot be read.
        """
        try:
            answer = await self._send("GET", f"/events/{quote(event_id, safe='')}")
        except VtnError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return False
            raise
        found = decode_event(answer)
        if found.id is not None and found.id != event_id:
            # It says nothing of the event that was asked for.
            found = UnreadableEvent(event_id, f"the VTN answers with the event {printable(found.id, _MOST_SHOWN)}")
        _add(into, found, event_id, program_id)
        return True

    async def report_names(self, event_id: str, client_name: str) -> frozenset[str]:
        """Return the names of the reports of an event that this VEN has sent.

        Raises:
            VtnError: they cannot be read.
        """
        query = (("eventID", event_id), ("clientName", client_name))
        try:
            return frozenset(decode_report_name(raw) for raw in await self._list("/reports", query))
        except DecodeError as error:
            raise VtnError(VtnReason.INVALID_ANSWER, error.message) from error

    async def send_report(self, report: Mapping[str, Any]) -> None:
        """Create a report.

        Raises:
            VtnError: it is not taken.
        """
        await self._send("POST", "/reports", body=report)

    async def _list(self, path: str, query: _Query, targets: Iterable[str] = ()) -> list[bytes]:
        """Return the objects of a list, each once: those for all, and those for the targets."""
        found: dict[bytes, None] = {}
        await self._pages(path, query, found)
        if wanted := tuple(("targets", each) for each in targets):
            # A VTN may leave out objects without targets where targets are requested, and objects with targets else.
            await self._pages(path, (*query, *wanted), found)
        return list(found)

    async def _pages(self, path: str, query: _Query, found: dict[bytes, None]) -> None:
        skip, read = 0, set[bytes]()
        while True:
            page = await self._page(path, (*query, ("skip", str(skip)), ("limit", str(PAGE))))
            new = not read.issuperset(page)
            read.update(page)
            found.update(dict.fromkeys(page))
            if len(found) > MOST_ITEMS or sum(map(len, found)) > MOST_BYTES:
                most = f"more than {MOST_ITEMS} objects, or {MOST_BYTES} bytes"
                raise VtnError(VtnReason.INVALID_ANSWER, f"{path}: {most}")
            # A longer page is of a VTN that ignores the limit; one without anything new of one that ignores `skip`.
            if len(page) != PAGE or not new:
                return
            skip += PAGE

    async def _page(self, path: str, query: _Query) -> list[bytes]:
        try:
            return decode_items(await self._send("GET", path, query=query), f"list of {path}")
        except DecodeError as error:
            raise VtnError(VtnReason.INVALID_ANSWER, error.message) from error

    async def _send(
        self, method: str, path: str, *, query: _Query = (), body: Mapping[str, Any] | None = None
    ) -> bytes:
        try:
            return await self._send_once(method, path, query, body)
        except VtnError as error:
            if error.status != HTTPStatus.UNAUTHORIZED:
                raise
            self._tokens.drop()
        try:
            return await self._send_once(method, path, query, body)
        except VtnError as error:
            if error.status == HTTPStatus.UNAUTHORIZED:
                self._tokens.drop()
            raise

    async def _send_once(self, method: str, path: str, query: _Query, body: Mapping[str, Any] | None) -> bytes:
        token = await self._tokens.get()
        answer = await self._http.send(method, f"{self._url}{path}", token=token, query=query, body=body)
        self.ahead_s = _ahead_s(answer.date, self._wall())
        return answer.body


def _add(read: ReadEvents, event: VtnEvent | UnreadableEvent, place: str, program_id: str) -> None:
    """Add an event; of another program, it is not one of this VEN's."""
    if isinstance(event, UnreadableEvent):
        read.unreadable[event.id or place] = event.problem
    elif event.program_id == program_id:
        read.events[event.id] = event


def _ahead_s(date: str, now_s: float) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp() - now_s
    except (ValueError, OverflowError):
        return None
