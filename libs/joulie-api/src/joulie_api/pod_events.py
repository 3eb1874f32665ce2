"""Events about pods, in their namespaces: warnings, and what is told once.

An Event is best effort: a full queue drops the oldest, one that cannot be written is dropped, and one that was written
is not repeated for a while, since a pod that is restarted brings the same warnings again.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import structlog

from joulie_api.client import KubeClient
from joulie_api.errors import AlreadyExists, KubeError
from joulie_api.failure_log import FailureLog
from joulie_api.resources import EVENTS, PODS
from joulie_core.text import printable
from joulie_core.timestamps import rfc3339

#: Events that may wait, and recent ones that are remembered.
_CAPACITY: Final = 1000
_REPEAT_AFTER_S: Final = 600.0
_INTERVAL_S: Final = 0.2
#: What the API server takes as a message.
_LONGEST_MESSAGE: Final = 1024
#: Names of events are that of their pod and a number; the API server takes 253 characters.
_NAME_LIMIT: Final = 200

_log = structlog.get_logger()

_Key = tuple[str, str, str, str, str]


@dataclass(frozen=True, slots=True)
class PodEvent:
    """An Event about a pod."""

    namespace: str
    pod: str
    pod_uid: str
    #: In CamelCase.
    reason: str
    message: str
    is_warning: bool = True
    #: Name of the Event, which the API server takes once; empty: each has another.
    name: str = ""


class PodEvents:
    """A bounded queue of Events, and the worker that writes them."""

    def __init__(
        self,
        client: KubeClient,
        *,
        component: str,
        node: str,
        wall_time: Callable[[], float],
        interval_s: float = _INTERVAL_S,
    ) -> None:
        self._client = client
        self._component = component
        self._node = node
        self._wall_time = wall_time
        self._interval_s = interval_s
        self._waiting: OrderedDict[_Key, PodEvent] = OrderedDict()
        #: When each was queued last.
        self._recent: OrderedDict[_Key, float] = OrderedDict()
        self._wake = asyncio.Event()
        self._written = 0
        self._failures = FailureLog(_log, failed="event write failed", recovered="event write recovered")

    def record(self, event: PodEvent) -> None:
        """Queue an Event, unless an equal one was queued lately."""
        now, key = self._wall_time(), (event.namespace, event.pod, event.pod_uid, event.reason, event.message)
        if not event.namespace or not event.pod:
            _log.warning("event about no pod dropped", reason=event.reason, message=event.message)
            return
        if now - self._recent.get(key, float("-inf")) < _REPEAT_AFTER_S:
            return
        _add(self._recent, key, now)
        _add(self._waiting, key, event)
        self._wake.set()

    async def run(self) -> NoReturn:
        """Write the queue until cancelled."""
        while True:
            while not self._waiting:
                self._wake.clear()
                await self._wake.wait()
            _, event = self._waiting.popitem(last=False)
            try:
                await self._client.create(EVENTS, self._body(event), event.namespace)
            except AlreadyExists:
                self._failures.recovered()
            except KubeError as error:
                self._failures.failed(error)
            else:
                self._failures.recovered()
            await asyncio.sleep(self._interval_s)

    def _body(self, event: PodEvent) -> dict[str, Any]:
        self._written += 1
        now = self._wall_time()
        time = rfc3339(now, timespec="seconds")
        made_up = f"{event.pod[:_NAME_LIMIT].rstrip('.-')}.{int(now * 1e6):x}{self._written & 0xFFF:03x}"
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": event.name or made_up, "namespace": event.namespace},
            "involvedObject": {
                "apiVersion": PODS.api_version,
                "kind": PODS.kind,
                "name": event.pod,
                "uid": event.pod_uid,
                "namespace": event.namespace,
            },
            "type": "Warning" if event.is_warning else "Normal",
            "reason": event.reason,
            "message": printable(event.message, _LONGEST_MESSAGE),
            "count": 1,
            "firstTimestamp": time,
            "lastTimestamp": time,
            "source": {"component": self._component, "host": self._node},
            "reportingComponent": self._component,
            "reportingInstance": self._node,
        }


def name_of_once(pod: str, uid: str, what: str) -> str:
    """Return the name of an Event that is to be written once about this pod; `what`: a word for it."""
    return f"{pod[:_NAME_LIMIT].rstrip('.-')}.{what}.{uid}"


def _add(entries: OrderedDict[_Key, Any], key: _Key, value: Any) -> None:
    """Add an entry as the newest, and drop the oldest where there are too many."""
    entries.pop(key, None)
    entries[key] = value
    if len(entries) > _CAPACITY:
        entries.popitem(last=False)
