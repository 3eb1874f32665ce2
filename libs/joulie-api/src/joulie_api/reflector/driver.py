"""The I/O of a reflector: performs the requests of its state machine, feeds it the answers, calls the handlers.

Guarantees: the store is complete once `synced` is set and follows the server from then on; a handler that raises ends
`run` with its exception, since a service whose state may be wrong must not continue. Handlers are called on the event
loop between two lines of the watch: they put a key into a queue or a set and return.
"""

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import MappingProxyType
from typing import Final, Generic, NoReturn, Protocol, TypeVar

import structlog

from joulie_api.client import PAGE_LIMIT, WATCH_IDLE_TIMEOUT_S
from joulie_api.errors import AnswerTooLarge, KubeError, ServerError, TooManyRequests, TransportError
from joulie_api.failure_log import FailureLog
from joulie_api.failures import Failures
from joulie_api.outage import CONNECT_TIMEOUT_S, Outage
from joulie_api.reflector.event import read_event, read_page
from joulie_api.reflector.machine import Change, Counters, Listing, ReflectorMachine, Request, Watching
from joulie_api.resources import Resource

T = TypeVar("T")
Handler = Callable[[str, T | None, T | None], None]

#: Maximum age of the copy while the server cannot be read: twice the silence after which a watch is reopened, so that
#: one attempt may fail.
STALE_TOLERANCE_S: Final = 2 * WATCH_IDLE_TIMEOUT_S
#: Bytes of a page, which is read in one go: decoding takes less than 100 ms. A longer one is requested again in smaller
#: pages, so that a collection of large objects takes requests and not memory.
MAX_PAGE_BYTES: Final = 8 * 1024 * 1024
_PAGE_DIVISOR: Final = 4
#: Of which the worst takes 50 ms to be cut into its values. More is read beside the event loop: one value that is
#: nested deeply takes seconds.
_READ_AT_ONCE_BYTES: Final = 64 * 1024
#: After which a handler is called again with an object that it failed on; a bookmark a minute wakes an idle watch.
HANDLER_RETRY_S: Final = 30.0

_log = structlog.get_logger()


class ListWatch(Protocol):
    """The part of `joulie_api.client.KubeClient` that a reflector uses."""

    outage: Outage

    async def list_page(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        label_selector: str,
        field_selector: str,
        limit: int,
        continue_token: str,
        max_bytes: int | None,
    ) -> bytes:
        """Return one page of the collection, raw."""

    def watch(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str,
        field_selector: str,
        timeout_s: int,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Yield the lines of one watch."""


class Reflector(Generic[T]):
    """A local copy of one collection, kept up to date by `run`.

    `store` maps "name" (or "namespace/name" of a namespaced resource) to the decoded object.
    """

    def __init__(
        self,
        client: ListWatch,
        resource: Resource,
        decode: Callable[[bytes], T],
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        name: str | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.name = name or resource.full_name
        self.synced = asyncio.Event()
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._selectors = {"label_selector": label_selector, "field_selector": field_selector}
        self._machine = ReflectorMachine(decode, name=self.name, chance=chance, report=self._on_object)
        self._handlers: list[Handler[T]] = []
        self._failures_of_objects: Failures | None = None
        #: Changes that a handler failed on, by its position and the key: what it has last taken.
        self._missed: dict[tuple[int, str], T | None] = {}
        self._retry_at = math.inf
        self._page_limit = PAGE_LIMIT
        #: Whether the last attempt was given up early, as one to a server that hangs.
        self._gave_up_early = False
        #: When it began, and how long its connection was given.
        self._attempted_at = 0.0
        self._given_s = CONNECT_TIMEOUT_S
        self._store = MappingProxyType(self._machine.objects)
        self._log = _log.bind(reflector=self.name)
        self._failures = FailureLog(self._log, failed="watch failed", recovered="watch recovered")

    @property
    def resource(self) -> Resource:
        """The resource of the collection."""
        return self._resource

    @property
    def store(self) -> Mapping[str, T]:
        """A live, read-only view of all objects."""
        return self._store

    @property
    def counters(self) -> Counters:
        """Totals for metrics: relists, reconnects, events, bookmarks, back-offs, decode errors."""
        return self._machine.counters

    @property
    def invalid(self) -> Mapping[str, str]:
        """Reasons why objects cannot be decoded, by key; the last good version of each stays in the store."""
        return self._machine.invalid

    def report_to(self, failures: Failures) -> None:
        """Report objects that cannot be decoded, and contain failures of handlers: such an object is tried again.

        Without it, a handler's exception ends `run`.
        """
        self._failures_of_objects = failures

    @property
    def problem(self) -> str | None:
        """The error message if the server cannot be read at the moment (a 403 names the missing verb), else None."""
        error = self._machine.problem
        return None if error is None else str(error)

    def age_s(self) -> float:
        """Return the seconds since the last complete list, event or bookmark; infinite before the first.

        With a healthy watch of an unchanged resource it reaches about 60 s, the interval of bookmarks.
        """
        progress_at = self._machine.progress_at
        return float("inf") if progress_at is None else asyncio.get_running_loop().time() - progress_at

    def is_stale(self, tolerance_s: float = STALE_TOLERANCE_S) -> bool:
        """Return whether the store is incomplete, or may be older than the tolerance.

        While the last request has failed, the age is compared with the tolerance. While a watch is open,
        `WATCH_IDLE_TIMEOUT_S` is added, since an unchanged resource brings only one bookmark per minute.
        """
        allowance_s = WATCH_IDLE_TIMEOUT_S if self._machine.problem is None else 0.0
        return not self.synced.is_set() or self.age_s() > tolerance_s + allowance_s

    def stale_reason(self, tolerance_s: float = STALE_TOLERANCE_S) -> str | None:
        """Return why the store must not be used, for a readiness check; None when it may."""
        if not self.is_stale(tolerance_s):
            return None
        reason = f"no contact for {self.age_s():.0f} s" if self.synced.is_set() else "first list not complete"
        return f"{reason} ({self.problem})" if self.problem else reason

    def subscribe(self, handler: Handler[T]) -> None:
        """Call `handler(key, old, new)` for every change from now on, and at once for every object in the store.

        `old` None: added; `new` None: deleted. The handler must not block.
        """
        self._handlers.append(handler)
        for key, new in list(self._store.items()):
            handler(key, None, new)

    async def wait_synced(self) -> None:
        """Wait until the first list is complete."""
        await self.synced.wait()

    async def run(self) -> NoReturn:
        """List and watch until cancelled. Raises only what a handler raises, unless that is reported."""
        request = self._machine.start()
        while True:
            # Giving up was wait enough, and the next connection leads to another server in most cases.
            if request.delay_s > 0 and not self._gave_up_early:
                await self._wait(request.delay_s)
            self._gave_up_early = False
            self._attempted_at, self._given_s = self._now(), self._client.outage.connect_timeout_s
            match request:
                case Listing():
                    request = await self._list(request)
                case Watching():
                    request = await self._watch(request)
            self._report()

    def _on_refusal(self, error: KubeError) -> Request:
        """Take the error of a request that was not accepted, or not answered."""
        if isinstance(error, TransportError):
            self._client.outage.unanswered()
            self._gave_up_early = self._now() - self._attempted_at >= self._given_s < CONNECT_TIMEOUT_S
        return self._on_failure(error)

    def _on_failure(self, error: KubeError) -> Request:
        self._client.outage.failed(error)
        return self._machine.on_failure(error, self._now())

    async def _wait(self, delay_s: float) -> None:
        problem = self._machine.problem
        requested_s = problem.retry_after_s if isinstance(problem, ServerError | TooManyRequests) else 0.0
        if requested_s > 0:
            await asyncio.sleep(requested_s)
        if delay_s > requested_s:
            outage = self._client.outage
            await outage.wait(delay_s - requested_s, probe=outage.may_probe_after(problem), waited_s=requested_s)

    async def _list(self, request: Listing) -> Request:
        try:
            raw = await self._client.list_page(
                self._resource,
                self._namespace,
                limit=self._page_limit,
                continue_token=request.continue_token,
                # One object is received in any case: the API server limits its size.
                max_bytes=MAX_PAGE_BYTES if self._page_limit > 1 else None,
                **self._selectors,
            )
        except AnswerTooLarge:
            self._page_limit = max(1, self._page_limit // _PAGE_DIVISOR)
            return Listing(request.continue_token)
        except KubeError as error:
            return self._on_refusal(error)
        self._client.outage.answered()
        is_short = len(raw) <= _READ_AT_ONCE_BYTES
        page = read_page(raw) if is_short else await asyncio.to_thread(read_page, raw)
        step = self._machine.on_list_page(page, self._now())
        assert step.request is not None
        self._deliver(step.changes)
        if self._machine.synced and not self.synced.is_set():
            self._log.info("synced", objects=len(self._store))
            self.synced.set()
        return step.request

    async def _watch(self, request: Watching) -> Request:
        watch = self._client.watch(
            self._resource,
            self._namespace,
            resource_version=request.resource_version,
            timeout_s=request.timeout_s,
            **self._selectors,
        )
        async with AsyncExitStack() as stack:
            # Only opening and reading are guarded: a handler's KubeError is not the server's and must propagate.
            try:
                lines = await stack.enter_async_context(watch)
            except KubeError as error:
                return self._on_refusal(error)
            self._client.outage.answered()
            self._machine.on_watch_open(self._now())
            while True:
                self._report()
                try:
                    line = await anext(lines)
                except StopAsyncIteration:
                    return self._machine.on_end(self._now())
                except KubeError as error:
                    return self._on_failure(error)
                # Without a coroutine for each of the short lines.
                is_short = len(line) <= _READ_AT_ONCE_BYTES
                event = read_event(line) if is_short else await asyncio.to_thread(read_event, line)
                step = self._machine.on_event(event, self._now())
                self._deliver(step.changes)
                if step.request is not None:
                    return step.request

    def _deliver(self, changes: tuple[Change[T], ...]) -> None:
        if self._failures_of_objects is None:
            for change in changes:
                for handler in self._handlers:
                    handler(change.key, change.old, change.new)
            return
        for change in changes:
            for position in range(len(self._handlers)):
                self._deliver_one(self._failures_of_objects, position, change)
        if self._now() >= self._retry_at:
            self._retry_at = math.inf
            for position, key in [*self._missed]:
                change = Change(key, None, self._store.get(key))
                self._deliver_one(self._failures_of_objects, position, change)

    def _deliver_one(self, failures: Failures, position: int, change: Change[T]) -> None:
        """Call a handler; what it fails on alone is tried again, with what it has taken last as the old value."""
        place = (position, change.key)
        old = self._missed.pop(place) if place in self._missed else change.old
        if old is None and change.new is None:
            # It was never taken as a whole; its deletion shall remove what was taken in part.
            old = change.old
        try:
            self._handlers[position](change.key, old, change.new)
        except Exception as error:  # noqa: BLE001 - one object must not end the work on the others
            failures.internal_error(f"take {self.name}", error, key=change.key)
            self._missed[place] = old
            self._retry_at = min(self._retry_at, self._now() + HANDLER_RETRY_S)
        else:
            if change.new is None or old is not change.old:
                failures.worked(f"take {self.name}", key=change.key)

    def _on_object(self, key: str, version: str, error: Exception | None) -> None:
        failures = self._failures_of_objects
        if failures is None:
            if error is not None:
                self._log.warning("decoding object failed", key=key, resource_version=version, error=str(error))
        elif error is None:
            failures.decoded(self.name, key=key)
        else:
            failures.not_decoded(self.name, error, key=key)

    def _report(self) -> None:
        error = self._machine.problem
        if error is None:
            self._failures.recovered()
        else:
            self._failures.failed(error)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
