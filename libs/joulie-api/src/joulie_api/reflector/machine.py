"""State machine of a reflector, without I/O: takes bytes and times, returns changes and requests.

Guarantees: after any faults, once the server answers again, the objects equal the server's, and every difference has
been returned exactly once, including deletions during an interruption. There is no order between keys.

Limits: intermediate states of an object may be missed. Resource versions that decrease (etcd restored from a backup)
are not detected; restart the process then.

Source: Kubernetes API concepts (efficient detection of changes) and the behaviour of client-go's reflector.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

import msgspec
import structlog

from joulie_api.backoff import Backoff
from joulie_api.decoding import decode
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
from joulie_api.reflector.event import ReadPage, WatchEvent
from joulie_api.wire import ListMeta, WireIdentity

T = TypeVar("T")
#: Called with the key and version of an object that cannot be decoded, and the error; with the error None once it can
#: be decoded again, or is gone.
Report = Callable[[str, str, Exception | None], None]

#: The server ends a watch after a random time of this range, so that reconnects of many clients are spread.
WATCH_TIMEOUT_S: Final = (300.0, 600.0)
#: A watch shorter than this without events is a failure: a server that disconnects at once must not be overloaded.
SHORT_WATCH_S: Final = 1.0

#: After failures for this long the collection is listed again: an accepted watch does not show that the server is not
#: behind.
RELIST_AFTER_S: Final = 10.0

#: Without a 429 for this long, the next one starts the waits for overload anew.
OVERLOAD_RESET_S: Final = 30.0

_log = structlog.get_logger()


class Phase(StrEnum):
    """The current or next operation of the machine."""

    LISTING = "listing"
    WATCHING = "watching"


@dataclass(frozen=True, slots=True)
class Listing:
    """Request: wait `delay_s`, then fetch the page of `continue_token` ("" is the first)."""

    continue_token: str = ""
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Watching:
    """Request: wait `delay_s`, then watch from `resource_version` for `timeout_s`."""

    resource_version: str
    timeout_s: int
    delay_s: float = 0.0


Request = Listing | Watching


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One difference: added (`old` None), updated, or deleted (`new` None)."""

    key: str
    old: T | None
    new: T | None


@dataclass(frozen=True, slots=True)
class Step(Generic[T]):
    """Changes to deliver, then the request that replaces the current one; None continues the current one."""

    changes: tuple[Change[T], ...] = ()
    request: Request | None = None


_NOTHING: Final[Step[Any]] = Step()


@dataclass(slots=True)
class Counters:
    """Totals since the start, for metrics."""

    relists: int = 0
    reconnects: int = 0
    events: int = 0
    bookmarks: int = 0
    backoffs: int = 0
    decode_errors: int = 0


_STATUS: Final = msgspec.json.Decoder(Status)


class ReflectorMachine(Generic[T]):
    """The state of one reflector. Its attributes are public for reading; only its methods change them."""

    def __init__(
        self, read: Callable[[bytes], T], *, name: str, chance: Callable[[], float], report: Report | None = None
    ) -> None:
        self._read = read
        self._report = report or self._log_report
        self._chance = chance
        self._backoff = Backoff(chance)
        self._overload = Backoff(chance, reset_after_s=OVERLOAD_RESET_S)
        self._log = _log.bind(reflector=name)
        #: The last good decoding of every object the server has; the key is "name" or "namespace/name".
        self.objects: dict[str, T] = {}
        #: The latest resourceVersion of every object the server has: a superset of `objects`' keys, since it includes
        #: objects that could not be decoded.
        self.versions: dict[str, str] = {}
        #: Why the latest version of an object cannot be decoded. Its last good decoding stays in `objects`. While
        #: a list is under way, also of objects of its pages, or of pages of a list that was not completed.
        self.invalid: dict[str, str] = {}
        self.counters = Counters()
        self.phase = Phase.LISTING
        #: True once a list was complete; never False again.
        self.synced = False
        #: When the server last sent a complete list, an event or a bookmark; None before the first.
        self.progress_at: float | None = None
        #: Why the last request failed, None if it did not.
        self.problem: KubeError | None = None
        #: When the first request failed since the server last answered.
        self._failing_since = 0.0
        #: Where the next watch starts: the version of the list (from its first page on), then of the latest event.
        self._resource_version = ""
        #: Pages of the current list, not yet visible; both empty while watching.
        self._page_objects: dict[str, T] = {}
        self._page_versions: dict[str, str] = {}
        self._continue_token = ""
        self._watch_opened_at = 0.0
        self._watch_had_event = False
        #: True from a relist after a 410 until the server has sent an event or bookmark.
        self._gone_before = False

    def check(self) -> None:
        """Assert the invariants that the attributes document."""
        assert self.objects.keys() <= self.versions.keys()
        assert self._page_objects.keys() <= self._page_versions.keys()
        if self.phase is Phase.WATCHING:
            assert self.synced
            assert self._resource_version
            assert not self._page_versions
            assert not self._continue_token
            assert self.invalid.keys() <= self.versions.keys()

    def start(self) -> Request:
        """Return the first request: a list of the most recent state.

        It has no resourceVersion: "0" could return an older state after a restart, and older servers ignore the limit
        with it.
        """
        return Listing()

    # ---------------------------------------------------------------- list

    def on_list_page(self, page: ReadPage | DecodeError, now: float) -> Step[T]:
        """Handle a page. Objects become visible with the last page: half a list would look like mass deletion."""
        if isinstance(page, DecodeError):
            return Step(request=self.on_failure(page, now))
        try:
            page_version = _version(page.metadata)
            items = [(_key_and_version(identity), raw) for identity, raw in page.items]
        except DecodeError as error:
            return Step(request=self.on_failure(error, now))
        self.problem = None
        if not self._continue_token:
            # If the server pages without a snapshot, its first page is the oldest: a watch from there misses nothing.
            self._resource_version = page_version
        for (key, version), raw in items:
            self._take_item(key, version, raw)
        self._continue_token = page.metadata.continue_
        if self._continue_token:
            return Step(request=Listing(self._continue_token))
        self._progress(now)
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
        """Make the complete list visible and return the change of each object, deletions included."""
        fresh, versions = self._page_objects, self._page_versions
        changes = [Change(key, old, None) for key, old in self.objects.items() if key not in fresh]
        for key, new in fresh.items():
            old = self.objects.get(key)
            if new is not old:
                changes.append(Change(key, old, new))
        self.objects.clear()  # in place: callers hold a view of this dictionary
        self.objects.update(fresh)
        self.versions = versions
        self._page_objects, self._page_versions = {}, {}
        for key in self.invalid.keys() - versions.keys():
            self._note_valid(key)
        self.synced = True
        return tuple(changes)

    def _relist(self, delay_s: float) -> Request:
        self.counters.relists += 1
        self.phase = Phase.LISTING
        self._page_objects, self._page_versions, self._continue_token = {}, {}, ""
        return Listing(delay_s=delay_s)

    # ---------------------------------------------------------------- watch

    def on_watch_open(self, now: float) -> None:
        """Record that the server accepted the watch. This is not progress yet; only received data is."""
        self._watch_opened_at = now
        self._watch_had_event = False
        self.problem = None

    def on_event(self, event: WatchEvent | DecodeError, now: float) -> Step[T]:
        """Handle one event of the watch."""
        try:
            if isinstance(event, DecodeError):
                raise event
            return self._on_event(event.type, event.raw, event.identity or WireIdentity(), now)
        except DecodeError as error:
            # Not JSON, or not a watch event: it may come from a proxy, and the rest of the stream cannot be trusted.
            return Step(request=self.on_failure(DecodeError(f"not a watch event: {error}"), now))

    def _on_event(self, type_: str, raw: bytes, identity: WireIdentity, now: float) -> Step[T]:
        match type_:
            case "ADDED" | "MODIFIED":
                # Added or updated is decided by the local copy, not by the event: after a resumed watch an object may
                # be ADDED again.
                key, version = _key_and_version(identity)
                self._on_news(version, now)
                return self._upsert(key, version, raw)
            case "DELETED":
                # Deleted, or no longer matching the selectors: handled alike.
                key, version = _key_and_version(identity)
                self._on_news(version, now)
                return self._remove(key)
            case "BOOKMARK":
                # No change up to this version: resuming from it avoids a replay and, later, a 410.
                self.counters.bookmarks += 1
                self._advance(_version(identity), now)
                return _NOTHING
            case "ERROR":
                # The stream has ended; the Status has the reason.
                status = decode(_STATUS.decode, raw, "Status")
                return Step(request=self.on_failure(error_of_status(status.code or 500, status), now))
            case _:
                # A type of a newer server: its meaning is unknown, so it is ignored.
                self._log.warning("unknown watch event type", type=type_)
                return _NOTHING

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
            return _NOTHING  # a replay of an object of the list
        self.versions[key] = version
        new = self._decode_object(key, version, raw)
        if new is None:
            return _NOTHING
        old = self.objects.get(key)
        if new is old:
            return _NOTHING  # its decoder returns the same object where nothing has changed that is read
        self.objects[key] = new
        return Step((Change(key, old, new),))

    def _remove(self, key: str) -> Step[T]:
        self.versions.pop(key, None)
        self._note_valid(key)
        old = self.objects.pop(key, None)
        return _NOTHING if old is None else Step((Change(key, old, None),))

    def on_end(self, now: float) -> Request:
        """Handle the regular end of the stream: its timeout has expired, or the server is shutting down."""
        if self._watch_was_useful(now):
            return self._watch()
        # It disconnected at once without an event: overloaded, or a proxy without a backend.
        return self._watch(self._back_off(now, self._backoff))

    def _watch_was_useful(self, now: float) -> bool:
        return self._watch_had_event or now - self._watch_opened_at >= SHORT_WATCH_S

    def _watch(self, delay_s: float = 0.0) -> Request:
        self.counters.reconnects += self.phase is Phase.WATCHING
        self.phase = Phase.WATCHING
        shortest, longest = WATCH_TIMEOUT_S
        return Watching(self._resource_version, int(shortest + (longest - shortest) * self._chance()), delay_s)

    # ---------------------------------------------------------------- failures

    def on_failure(self, error: KubeError, now: float) -> Request:
        """Handle a refused request or a broken stream, and return the next request."""
        if self.problem is None:
            self._failing_since = now
        self.problem = error
        match error:
            case Gone():
                # The server no longer has this version (or the list's snapshot): only a new list shows what was missed.
                # Without delay, unless the last new list ended the same way.
                delay_s = self._back_off(now, self._backoff) if self._gone_before else 0.0
                self._gone_before = True
                return self._relist(delay_s)
            case IdleTimeoutError():
                # Silence, not even a bookmark: the connection is dead, or the server hangs or is behind. The idle
                # timeout was delay enough.
                return self._relist(0.0)
            case StreamBrokenError() if now - self._watch_opened_at >= SHORT_WATCH_S:
                # A working stream was cut, by a proxy or a restarting server. At most one reconnect per second.
                return self._watch()
            case TooManyRequests():
                # Overload, or the storage of a server that has just started is not ready. Waits of an outage before it
                # do not count.
                return self._again(now, max(error.retry_after_s, self._back_off(now, self._overload)))
            case ServerError():
                # An outage; the server may request a delay.
                return self._again(now, max(error.retry_after_s, self._back_off(now, self._backoff)))
            case _:
                # 401: the client has reloaded the credentials without success. 403: RBAC lacks a verb, which an
                # administrator may add. No connection, not JSON: transient. Keep the version and retry.
                return self._again(now, self._back_off(now, self._backoff))

    def _again(self, now: float, delay_s: float) -> Request:
        """Return a retry of what failed: the same page, or a watch from the latest version, a list after an outage."""
        if self.phase is Phase.LISTING:
            return Listing(self._continue_token, delay_s)
        if now + delay_s - self._failing_since >= RELIST_AFTER_S:
            return self._relist(delay_s)
        return self._watch(delay_s)

    def _back_off(self, now: float, waits: Backoff) -> float:
        self.counters.backoffs += 1
        return waits.next_s(now)

    def _progress(self, now: float) -> None:
        self.progress_at = now
        self.problem = None

    def _decode_object(self, key: str, version: str, raw: bytes) -> T | None:
        """Return the object, or None if it cannot be decoded."""
        try:
            found = self._read(raw)
        except Exception as error:  # noqa: BLE001 - one invalid object must not stop the others
            self.counters.decode_errors += 1
            self.invalid[key] = str(error)
            self._report(key, version, error)
            return None
        self._note_valid(key)
        return found

    def _note_valid(self, key: str) -> None:
        """Note that an object can be decoded, or is gone."""
        if self.invalid.pop(key, None) is not None:
            self._report(key, "", None)

    def _log_report(self, key: str, version: str, error: Exception | None) -> None:
        if error is not None:
            self._log.warning("decoding object failed", key=key, resource_version=version, error=str(error))


def _key_and_version(meta: WireIdentity) -> tuple[str, str]:
    """Return the key and resourceVersion of an object; raise DecodeError without them, since both are needed."""
    if not meta.name:
        raise DecodeError("an object without a name")
    return (f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name), _version(meta)


def _version(meta: WireIdentity | ListMeta) -> str:
    if not meta.resource_version:
        raise DecodeError("no resourceVersion")
    return meta.resource_version
