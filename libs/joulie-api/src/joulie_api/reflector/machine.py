"""What a reflector knows and decides, without I/O: bytes and times go in, changes and requests come out.

Promises: after any faults, once the server answers again, the objects here equal the server's, every difference
having been told exactly once, deletions during a gap included. Objects carry no order between keys. Not promised: that
every intermediate state of an object is seen.

Not detected: a server whose resource versions run backwards (etcd restored from a backup); restart the process then.

Source: Kubernetes API concepts (efficient detection of changes) and the behaviour of client-go's reflector.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar

import msgspec
import structlog

from joulie_api.errors import (
    DecodeError,
    Gone,
    IdleTimeoutError,
    KubeError,
    ServerError,
    Status,
    StreamBrokenError,
    TooManyRequests,
    error_of_status,
)
from joulie_api.reflector.backoff import Backoff
from joulie_api.wire import ListMeta, WireMeta, decode_metadata, decode_page

T = TypeVar("T")

#: A watch is ended by the server after a time drawn from this range, so that reconnects of many clients spread out.
WATCH_TIMEOUT_S: Final = (300.0, 600.0)
#: A watch shorter than this that brought nothing is a failure: a server that hangs up at once must not be hammered.
SHORT_WATCH_S: Final = 1.0

_log = structlog.get_logger()


class Phase(StrEnum):
    """What the machine is doing or about to do."""

    LISTING = "listing"
    WATCHING = "watching"


@dataclass(frozen=True, slots=True)
class Listing:
    """Request: wait ``delay_s``, then fetch the page of ``continue_token`` ("" is the first)."""

    continue_token: str = ""
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Watching:
    """Request: wait ``delay_s``, then watch what came after ``resource_version`` for ``timeout_s``."""

    resource_version: str
    timeout_s: int
    delay_s: float = 0.0


Request = Listing | Watching


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One difference: added (``old`` None), updated, or deleted (``new`` None)."""

    key: str
    old: T | None
    new: T | None


@dataclass(frozen=True, slots=True)
class Step(Generic[T]):
    """What to tell, then what to do: ``request`` replaces the one under way; None means go on with that."""

    changes: tuple[Change[T], ...] = ()
    request: Request | None = None


@dataclass(slots=True)
class Counters:
    """Totals since the start, to be read by a metrics collector."""

    relists: int = 0
    reconnects: int = 0
    events: int = 0
    bookmarks: int = 0
    backoffs: int = 0
    decode_errors: int = 0


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_EVENT: Final = msgspec.json.Decoder(_Event)
_STATUS: Final = msgspec.json.Decoder(Status)


class ReflectorMachine(Generic[T]):
    """The state of one reflector. Read its attributes freely; only its methods change them."""

    def __init__(self, decode: Callable[[bytes], T], *, name: str, chance: Callable[[], float]) -> None:
        self._decode = decode
        self._chance = chance
        self._backoff = Backoff(chance)
        self._log = _log.bind(reflector=name)
        #: The last good decoding of every object the server has; the key is "name" or "namespace/name".
        self.objects: dict[str, T] = {}
        #: The resourceVersion last seen of every object the server has: a superset of ``objects``' keys, for an object
        #: that never decoded is known too.
        self.versions: dict[str, str] = {}
        self.counters = Counters()
        self.phase = Phase.LISTING
        #: True once a list was complete; never False again.
        self.synced = False
        #: When the server last told us anything about the resource, None before the first answer.
        self.progress_at: float | None = None
        #: Why the last request failed, None while things go well.
        self.problem: KubeError | None = None
        #: Where the next watch starts: the version of the list (from its first page on), then of the latest event.
        self._resource_version = ""
        #: Pages of the list under way, not yet visible; both empty while watching.
        self._page_objects: dict[str, T] = {}
        self._page_versions: dict[str, str] = {}
        self._continue_token = ""
        self._watch_opened_at = 0.0
        self._watch_had_event = False
        #: True from a relist forced by 410 until the server has sent anything newer.
        self._gone_before = False

    def check(self) -> None:
        """Assert the invariants named at the attributes."""
        assert self.objects.keys() <= self.versions.keys()
        assert self._page_objects.keys() <= self._page_versions.keys()
        if self.phase is Phase.WATCHING:
            assert self.synced
            assert self._resource_version
            assert not self._page_versions
            assert not self._continue_token

    def start(self) -> Request:
        """The first request: a list of the most recent state.

        No resourceVersion is sent with it: "0" could go back in time after a restart, and older servers answer it in
        one piece, whatever the limit.
        """
        return Listing()

    # ---------------------------------------------------------------- list

    def on_list_page(self, raw: bytes, now: float) -> Step[T]:
        """A page arrived. Nothing of it shows before the last one: half a list looks like mass deletion."""
        try:
            page = decode_page(raw)
            page_version = _version(page.metadata)
            items = [(_identity(item), item) for item in page.items or ()]
        except DecodeError as error:
            return Step(request=self.on_failure(error, now))
        self._progress(now)
        if not self._continue_token:
            # A server that pages without a snapshot is older on its first page: watching from there misses nothing.
            self._resource_version = page_version
        for (key, version), item in items:
            self._take_item(key, version, bytes(item))
        self._continue_token = page.metadata.continue_
        if self._continue_token:
            return Step(request=Listing(self._continue_token))
        return Step(self._swap(), self._watch())

    def _take_item(self, key: str, version: str, raw: bytes) -> None:
        self._page_versions[key] = version
        unchanged = self.versions.get(key) == version
        value = None if unchanged else self._decode_object(key, version, raw)
        if value is None:
            value = self.objects.get(key)
        if value is not None:
            self._page_objects[key] = value

    def _swap(self) -> tuple[Change[T], ...]:
        """Make the complete list visible and say what became of each object, also of those that are gone."""
        fresh, versions = self._page_objects, self._page_versions
        changes = [Change(key, old, None) for key, old in self.objects.items() if key not in fresh]
        for key, new in fresh.items():
            old = self.objects.get(key)
            if new is not old:
                changes.append(Change(key, old, new))
        self.objects.clear()  # in place: others hold a view of this dictionary
        self.objects.update(fresh)
        self.versions = versions
        self._page_objects, self._page_versions = {}, {}
        self.synced = True
        return tuple(changes)

    def _relist(self, delay_s: float) -> Request:
        self.counters.relists += 1
        self.phase = Phase.LISTING
        self._page_objects, self._page_versions, self._continue_token = {}, {}, ""
        return Listing(delay_s=delay_s)

    # ---------------------------------------------------------------- watch

    def on_watch_open(self, now: float) -> None:
        """The server accepted the watch: our credentials and our version are good. Progress is only what it sends."""
        self._watch_opened_at = now
        self._watch_had_event = False
        self.problem = None

    def on_line(self, raw: bytes, now: float) -> Step[T]:
        """One line of the watch."""
        try:
            return self._on_event(_EVENT.decode(raw), now)
        except (DecodeError, msgspec.MsgspecError) as error:
            # Not JSON, or not a watch event: something between us and the server is speaking. Whatever it is, it is no
            # event, and the stream cannot be trusted any further.
            return Step(request=self.on_failure(DecodeError(f"not a watch event: {error}"), now))

    def _on_event(self, event: _Event, now: float) -> Step[T]:
        raw = bytes(event.object)
        match event.type:
            case "ADDED" | "MODIFIED":
                # Which of the two it is depends on what we know, not on what the server calls it: after a resumed
                # watch an object may be ADDED again.
                key, version = _identity(raw)
                self._on_news(version, now)
                return self._upsert(key, version, raw)
            case "DELETED":
                # Deleted, or no longer matching the selectors: either way not ours any more.
                key, version = _identity(raw)
                self._on_news(version, now)
                return self._remove(key)
            case "BOOKMARK":
                # Nothing happened up to this version: resuming from it spares a replay and, later, a 410.
                self.counters.bookmarks += 1
                self._advance(_version(decode_metadata(raw)), now)
                return Step()
            case "ERROR":
                # The stream is over, and the Status says why.
                status = _STATUS.decode(raw)
                return Step(request=self.on_failure(error_of_status(status.code or 500, status), now))
            case _:
                # A newer server's invention: what it means for our objects is unknown, so nothing is.
                self._log.warning("unknown watch event type", type=event.type)
                return Step()

    def _on_news(self, version: str, now: float) -> None:
        self.counters.events += 1
        self._watch_had_event = True
        self._advance(version, now)

    def _advance(self, version: str, now: float) -> None:
        self._resource_version = version
        self._gone_before = False
        self._progress(now)

    def _upsert(self, key: str, version: str, raw: bytes) -> Step[T]:
        if self.versions.get(key) == version:
            return Step()  # a replay of what the list already had
        self.versions[key] = version
        new = self._decode_object(key, version, raw)
        if new is None:
            return Step()
        old = self.objects.get(key)
        self.objects[key] = new
        return Step((Change(key, old, new),))

    def _remove(self, key: str) -> Step[T]:
        self.versions.pop(key, None)
        old = self.objects.pop(key, None)
        return Step(() if old is None else (Change(key, old, None),))

    def on_end(self, now: float) -> Request:
        """The server closed the stream in good order: its timeout is up, or it is shutting down."""
        if self._watch_was_useful(now):
            return self._watch()
        # It hung up at once, with nothing said. Perhaps overloaded, perhaps a proxy with no server behind it.
        return self._watch(self._back_off(now))

    def _watch_was_useful(self, now: float) -> bool:
        return self._watch_had_event or now - self._watch_opened_at >= SHORT_WATCH_S

    def _watch(self, delay_s: float = 0.0) -> Request:
        self.counters.reconnects += self.phase is Phase.WATCHING
        self.phase = Phase.WATCHING
        shortest, longest = WATCH_TIMEOUT_S
        return Watching(self._resource_version, int(shortest + (longest - shortest) * self._chance()), delay_s)

    # ---------------------------------------------------------------- failures

    def on_failure(self, error: KubeError, now: float) -> Request:
        """A request was refused, or a stream broke: what to ask for next."""
        self.problem = error
        match error:
            case Gone():
                # The server no longer remembers our version (or the list's snapshot): only a new list can tell what
                # was missed. At once, unless the last new list ended the same way.
                delay_s = self._back_off(now) if self._gone_before else 0.0
                self._gone_before = True
                return self._relist(delay_s)
            case IdleTimeoutError():
                # Silence, not even a bookmark: the connection is dead and nobody said so. The version is still good,
                # and waiting was long enough already.
                return self._watch()
            case StreamBrokenError() if now - self._watch_opened_at >= SHORT_WATCH_S:
                # A working stream was cut, by a proxy or a restarting server. At most one reconnect a second.
                return self._watch()
            case TooManyRequests() | ServerError():
                # Overload or outage; the server may say how long it wants to be left alone.
                return self._again(max(error.retry_after_s, self._back_off(now)))
            case _:
                # 401: the client has read the credentials again, to no avail. 403: RBAC lacks a verb, and an
                # administrator may add it any minute. No connection, not JSON: all may pass. Keep the version and try.
                return self._again(self._back_off(now))

    def _again(self, delay_s: float) -> Request:
        """Repeat what failed: the same page, or a watch from the latest version."""
        if self.phase is Phase.LISTING:
            return Listing(self._continue_token, delay_s)
        return self._watch(delay_s)

    def _back_off(self, now: float) -> float:
        self.counters.backoffs += 1
        return self._backoff.next_s(now)

    def _progress(self, now: float) -> None:
        self.progress_at = now
        self.problem = None

    def _decode_object(self, key: str, version: str, raw: bytes) -> T | None:
        """The object, or None when it does not decode: told once, since a version is decoded once."""
        try:
            return self._decode(raw)
        except Exception as error:  # noqa: BLE001 - one strange object, whatever it trips, must not stop the others
            self.counters.decode_errors += 1
            self._log.warning("object does not decode", key=key, resource_version=version, error=str(error))
            return None


def _identity(raw: bytes | msgspec.Raw) -> tuple[str, str]:
    """Key and resourceVersion of an object. Raises DecodeError: without them it cannot be followed."""
    meta = decode_metadata(raw)
    if not meta.name:
        raise DecodeError("an object without a name")
    return (f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name), _version(meta)


def _version(meta: WireMeta | ListMeta) -> str:
    if not meta.resource_version:
        raise DecodeError("no resourceVersion")
    return meta.resource_version
