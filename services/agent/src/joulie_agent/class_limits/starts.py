"""Answers the start hook: a container may be created when no limit that is not its pod's is on its GPUs.

Guarantees that a question of a pod without GPUs is answered at once; that for any other the kubelet is asked after the
question has come, and the answer is sent after the actuator's; and that a start hook which is not there, or sends what
is no message, ends nothing: limits are lifted by polling then. Questions that come during a look share the next one.
Source: docs/decisions/0059-limits-lifted-before-start.md.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

import structlog

from joulie_agent.class_limits.before_start import LiftOutcome, StartLook
from joulie_api.container_starts import (
    LINE_LIMIT,
    MOST_WAITING,
    ContainerStart,
    HookState,
    StartAnswer,
    decode_for_controller,
    encode_line,
)
from joulie_api.errors import DecodeError
from joulie_api.failure_log import FailureLog
from joulie_api.failures import Failures
from joulie_api.pod_events import PodEvent
from joulie_core.holders.held import NodePods, held_devices
from joulie_core.holders.pod_gpus import StartingPod, gpus_of_pod, requests_no_gpu
from joulie_core.holders.records import DeviceListing, DeviceUsers, NodeGpu, NoListing

#: Between two attempts to reach the start hook.
RECONNECT_S: Final = 1.0
#: Of an Event about a pod whose container was started while one of its GPUs was limited.
NOT_LIFTED: Final = "ClassLimitNotLifted"
_WORK: Final = "limits lifted before a start"

_log = structlog.get_logger()

Lift = Callable[[StartLook], Awaitable[LiftOutcome]]


@dataclass(frozen=True, slots=True)
class StartSources:
    """Sources of what a starting container has, and what takes warnings."""

    #: The kubelet's answer to a question that is asked now, within a deadline.
    listing: Callable[[], Awaitable[DeviceListing | NoListing]]
    pods: Callable[[], NodePods | None]
    gpus: Callable[[], Sequence[NodeGpu]]
    #: What uses each GPU, by UUID; None where that is not looked for.
    users: Callable[[], Mapping[str, DeviceUsers] | None]
    #: Takes a warning about a pod.
    warn: Callable[[PodEvent], None]


@dataclass(frozen=True, slots=True)
class _Question:
    start: ContainerStart
    writer: asyncio.StreamWriter

    @property
    def pod(self) -> StartingPod:
        return StartingPod(self.start.namespace, self.start.pod, self.start.uid)


class ContainerStarts:
    """The questions of one node's start hook, answered by `run`.

    Args:
        socket: of the start hook.
        sources: what an answer depends on.
        changed: called when the start hook came, went or has another state.
        failures: counts defects.
        clock: seconds of the machine's CLOCK_MONOTONIC.
    """

    def __init__(
        self,
        socket: str,
        sources: StartSources,
        changed: Callable[[], None],
        failures: Failures,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._socket = socket
        self._sources = sources
        self._changed = changed
        self._failures = failures
        self._clock = clock
        self._state: HookState | None = None
        self._waiting: list[_Question] = []
        self._woken = asyncio.Event()
        self._log = FailureLog(_log, failed="start hook not followed", recovered="start hook followed")
        #: Containers since this process has started that were, or perhaps were, started under a limit not theirs.
        self.limited_starts = 0

    @property
    def waits_s(self) -> float | None:
        """Seconds for which containers wait until limits are lifted; None where none waits."""
        return self._state.deadline_s if self._state is not None and self._state.registered else None

    async def run(self, lift: Lift) -> NoReturn:
        """Follow the start hook until cancelled; `lift` lifts the limits of GPUs."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._answer_all(lift))
            while True:
                try:
                    await self._follow()
                    self._log.failed("the start hook has closed the connection")
                except (OSError, ValueError, DecodeError) as error:
                    # ValueError: a line that is too long.
                    self._log.failed(error)
                self._take_state(None)
                await asyncio.sleep(RECONNECT_S)

    async def _follow(self) -> None:
        reader, writer = await asyncio.open_unix_connection(self._socket, limit=LINE_LIMIT)
        try:
            while line := await reader.readline():
                match decode_for_controller(line):
                    case HookState() as state:
                        self._take_state(state)
                    case ContainerStart() as start:
                        self._take(_Question(start, writer))
        finally:
            writer.close()

    def _take_state(self, state: HookState | None) -> None:
        changed, self._state = state != self._state, state
        if state is not None:
            self._log.recovered()
        if changed:
            self._changed()

    def _take(self, question: _Question) -> None:
        if requests_no_gpu(question.pod, self._sources.pods()):
            _answer(question, lifted=True)
        elif len(self._waiting) < MOST_WAITING:
            self._waiting.append(question)
            self._woken.set()

    async def _answer_all(self, lift: Lift) -> NoReturn:
        while True:
            await self._woken.wait()
            self._woken.clear()
            asked, self._waiting = self._waiting, []
            try:
                await self._lift(asked, lift)
            except Exception as error:  # noqa: BLE001 - a defect must not end what holds caps; limits are polled
                self._failures.internal_error(_WORK, error)
            else:
                self._failures.worked(_WORK)

    async def _lift(self, asked: Sequence[_Question], lift: Lift) -> None:
        listing = await self._sources.listing()
        pods, gpus = self._sources.pods(), self._sources.gpus()
        of_pods = [gpus_of_pod(each.pod, listing, pods, gpus) for each in asked]
        known = [each for each in of_pods if each is not None]
        all_known = frozenset[str]().union(*known) if len(known) == len(of_pods) else None
        outcome = await lift(StartLook(held_devices(listing, pods, gpus, self._sources.users()), all_known))
        for question, uuids in zip(asked, of_pods, strict=True):
            left = {uuid: text for uuid, text in outcome.left.items() if uuids is None or uuid in uuids}
            _answer(question, lifted=not left)
            if not question.start.early:
                self._warn(question.start, uuids, outcome, left)

    def _warn(
        self, start: ContainerStart, uuids: frozenset[str] | None, outcome: LiftOutcome, left: Mapping[str, str]
    ) -> None:
        """Warn where the container was started before its limits were lifted."""
        late = self._state is None or self._clock() - start.asked_at_s > self._state.deadline_s
        found = dict(left)
        if late:
            lifted = outcome.lifted if uuids is None else outcome.lifted & uuids
            found |= dict.fromkeys(lifted, "its limit was lifted after the container was started")
        if not found:
            return
        self.limited_starts += 1
        which = "its GPU" if uuids is not None else "a GPU that may be its"
        uuid, text = min(found.items())
        more = f"; {len(found) - 1} more" if len(found) > 1 else ""
        message = f"A container was started while {which}, {uuid}, was limited by class: {text}{more}"
        self._sources.warn(PodEvent(start.namespace, start.pod, start.uid, NOT_LIFTED, message))


def _answer(question: _Question, *, lifted: bool) -> None:
    """Let the container start; a start hook that has gone does not wait."""
    if not question.writer.is_closing():
        question.writer.write(encode_line(StartAnswer(question.start.number, lifted)))
