"""Kubernetes Events: transitions of nodes, refusals by their hardware, and annotations of users that cannot be read.

`record` never waits: an event joins a bounded queue, where equal ones are counted instead of repeated. One worker sends
them at no more than a given rate, under the fence, so that five thousand nodes changing at once do not exceed what the
API server is expected to take. Events are best effort: one that cannot be written is counted as a failed write and
dropped, and a full queue drops the oldest.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import structlog

from joulie_api.apply import WriteResult
from joulie_api.client import KubeClient
from joulie_api.errors import AlreadyExists, KubeError, NotLeader
from joulie_api.failure_log import FailureLog
from joulie_api.resources import EVENTS, NODES, PODS, Resource
from joulie_core.demand import unknown_annotation
from joulie_core.fnv import fnv1a_32
from joulie_core.kinds.base import ConditionStatus
from joulie_core.labels import WORKLOAD_CLASS
from joulie_core.node import Node
from joulie_core.pod import Pod
from joulie_core.timestamps import rfc3339
from joulie_core.transition import GuardResult, Transition
from joulie_operator.published import PublishedCondition
from joulie_operator.reasons import EventReason

#: Kubernetes keeps events about objects without a namespace here.
CLUSTER_NAMESPACE: Final = "default"
#: Events that may wait; at the default rate some minutes' worth.
CAPACITY: Final = 10_000
#: Unknown workload classes that each get an Event of their own; further ones get none.
MOST_CLASSES: Final = 100
#: Longest part of a user's value that is repeated in a message.
_WORD_LIMIT: Final = 80
#: Names of events are that of their object and a number; the API server takes 253 characters.
_NAME_LIMIT: Final = 220

_log = structlog.get_logger()


class EventType(StrEnum):
    """The two types of Kubernetes."""

    NORMAL = "Normal"
    WARNING = "Warning"


#: Result of the guard -> (reason, text of the message).
_TRANSITIONS: Final[Mapping[GuardResult, tuple[EventReason, str]]] = {
    GuardResult.DEFERRED: (
        EventReason.ECO_DEFERRED,
        "planned eco, but {pods} still on the node: draining under performance caps",
    ),
    GuardResult.ALLOWED: (EventReason.ECO_ALLOWED, "planned eco, no performance pod on the node"),
    GuardResult.UNBLOCKED: (EventReason.ECO_UNBLOCKED, "the last performance pod has left"),
    GuardResult.REPLANNED_PERFORMANCE: (
        EventReason.PERFORMANCE_REPLANNED,
        "planned performance again while it was draining",
    ),
    GuardResult.PLANNED_PERFORMANCE: (EventReason.PERFORMANCE_PLANNED, "planned performance"),
}


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that an event is about."""

    res: Resource
    name: str
    uid: str
    #: Empty for an object without one.
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """One Event to write; those that compare equal are counted as one."""

    subject: Subject
    type: EventType
    reason: EventReason
    message: str
    #: Name of the event where it is to exist once; empty: one is made up.
    name: str = field(default="", compare=False)


@dataclass(slots=True)
class _Waiting:
    first_at: float
    last_at: float
    count: int = 1


class Recorder:
    """A bounded queue of events, and the worker that writes them."""

    def __init__(
        self,
        client: KubeClient,
        *,
        component: str,
        instance: str,
        guard: Callable[[], bool],
        wall: Callable[[], float],
        per_second: float,
        on_write: Callable[[str, WriteResult], None],
        capacity: int = CAPACITY,
    ) -> None:
        self._client = client
        self._component = component
        self._instance = instance
        self._guard = guard
        self._wall = wall
        self._interval_s = 1 / per_second
        self._on_write = on_write
        self._capacity = capacity
        self._waiting: OrderedDict[Event, _Waiting] = OrderedDict()
        self._wake = asyncio.Event()
        self._failures = FailureLog(_log, failed="event write failed", recovered="event write recovered")
        self._names = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def record(self, event: Event) -> None:
        """Queue an event."""
        now = self._wall()
        known = self._waiting.get(event)
        if known is not None:
            known.count, known.last_at = known.count + 1, now
            return
        if len(self._waiting) >= self._capacity:
            self._waiting.popitem(last=False)
            self._on_write(EVENTS.kind, WriteResult.FAILED)
        self._waiting[event] = _Waiting(now, now)
        self._wake.set()

    async def work(self) -> None:
        """Send the queue until cancelled.

        Raises:
            NotLeader: this process must not write any more.

        """
        while True:
            while not self._waiting:
                self._wake.clear()
                await self._wake.wait()
            event, waited = self._waiting.popitem(last=False)
            await self._send(event, waited)
            await asyncio.sleep(self._interval_s)

    async def _send(self, event: Event, waited: _Waiting) -> None:
        if not self._guard():
            self._on_write(EVENTS.kind, WriteResult.REFUSED)
            raise NotLeader("an Event was not written: this process does not hold the lease")
        namespace = event.subject.namespace or CLUSTER_NAMESPACE
        try:
            await self._client.create(EVENTS, self._body(event, waited, namespace), namespace)
        except AlreadyExists:
            self._on_write(EVENTS.kind, WriteResult.UNCHANGED)
        except KubeError as error:
            self._on_write(EVENTS.kind, WriteResult.FAILED)
            self._failures.failed(error)
        else:
            self._on_write(EVENTS.kind, WriteResult.APPLIED)
            self._failures.recovered()

    def _body(self, event: Event, waited: _Waiting, namespace: str) -> dict[str, Any]:
        subject = event.subject
        self._names += 1
        made_up = f"{subject.name[:_NAME_LIMIT].rstrip('.-')}.{int(waited.first_at * 1e6):x}{self._names & 0xFFF:03x}"
        involved = {
            "apiVersion": subject.res.api_version,
            "kind": subject.res.kind,
            "name": subject.name,
            "uid": subject.uid,
            **({"namespace": subject.namespace} if subject.namespace else {}),
        }
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": event.name or made_up, "namespace": namespace},
            "involvedObject": involved,
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "count": waited.count,
            "firstTimestamp": rfc3339(waited.first_at, timespec="seconds"),
            "lastTimestamp": rfc3339(waited.last_at, timespec="seconds"),
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }


class UnknownClasses:
    """Warns once about each unknown workload class, on the first pod that names it."""

    def __init__(self, record: Callable[[Event], None]) -> None:
        self._record = record
        self._seen: set[str] = set()

    def on_pod(self, pod: Pod) -> None:
        """Check a pod."""
        value = unknown_annotation(pod)
        if value is None or value in self._seen or len(self._seen) >= MOST_CLASSES:
            return
        self._seen.add(value)
        word = value if len(value) <= _WORD_LIMIT else f"{value[:_WORD_LIMIT]}..."
        _log.warning("unknown workload class", value=word, pod=pod.name, namespace=pod.namespace)
        # Named after the value, so that it exists once, also after a restart of the operator.
        event = Event(
            Subject(PODS, pod.name, pod.uid, pod.namespace),
            EventType.WARNING,
            EventReason.UNKNOWN_WORKLOAD_CLASS,
            f"{WORKLOAD_CLASS}={word!r} is neither performance nor standard; the pod counts as standard",
            name=f"joulie-workload-class-{fnv1a_32(value):08x}",
        )
        self._record(event)


def transition_event(node: Node, transition: Transition, performance_pods: int) -> Event:
    """Return the event of a transition."""
    reason, text = _TRANSITIONS[transition.result]
    pods = f"{performance_pods} performance pod{'s are' if performance_pods != 1 else ' is'}"
    message = f"{transition.from_state} -> {transition.to_state}: {text.format(pods=pods)}"
    return Event(_of_node(node), EventType.NORMAL, reason, message)


def unknown_pods_event(node: Node, state: str) -> Event:
    """Return the event of a change that has to wait because the pods cannot be read."""
    message = f"stays {state}: its pods cannot be read, and performance pods may be among them"
    return Event(_of_node(node), EventType.WARNING, EventReason.PODS_UNKNOWN, message)


def refusal_event(node: Node, enforced: PublishedCondition) -> Event:
    """Return the event of hardware that does not take its caps."""
    assert enforced.status == ConditionStatus.FALSE
    return Event(
        _of_node(node), EventType.WARNING, EventReason.CAPS_NOT_ENFORCED, f"{enforced.reason}: {enforced.message}"
    )


def not_processed_event(node: Node, error: str) -> Event:
    """Return the event of a node that could not be processed because of a defect of Joulie."""
    message = f"internal error {error}: what is published for the node stays; see the operator's log"
    return Event(_of_node(node), EventType.WARNING, EventReason.INTERNAL_ERROR, message)


def _of_node(node: Node) -> Subject:
    return Subject(NODES, node.name, node.uid)
