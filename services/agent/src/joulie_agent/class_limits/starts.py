"""Answers the start hook: a container may be created when no limit that is not its pod's is on its GPUs.

Guarantees that a question about a pod without GPUs, or one whose limits were lifted ahead, is answered at once; that
for any other the kubelet is asked after the question has come, and the answer is sent after the actuator's; and that a
start hook which is not there, or sends what is no message, ends nothing: limits are lifted by polling then.
Source: docs/decisions/0059-limits-lifted-before-start.md.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, NoReturn

import structlog

from joulie_agent.class_limits.bound_pods import BoundPods
from joulie_agent.class_limits.start_looks import PodFound, StartLooks
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
from joulie_api.pod_events import PodEvent
from joulie_core.class_caps.enforced_limit import NOT_LIFTED_EVENT
from joulie_core.holders.pod_gpus import StartingPod

#: Between two attempts to reach the start hook.
RECONNECT_S: Final = 1.0

_log = structlog.get_logger()


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
        looks: looks at what the pods have.
        bound: pods whose limits may have been lifted ahead.
        warn: takes a warning about a pod.
        changed: called when the start hook came, went or has another state.
        clock: seconds of the machine's CLOCK_MONOTONIC.
    """

    def __init__(
        self,
        socket: str,
        looks: StartLooks,
        bound: BoundPods,
        warn: Callable[[PodEvent], None],
        changed: Callable[[], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._socket = socket
        self._looks = looks
        self._bound = bound
        self._warn_pod = warn
        self._changed = changed
        self._clock = clock
        self._state: HookState | None = None
        self._log = FailureLog(_log, failed="start hook not followed", recovered="start hook followed")
        #: Containers since this process has started that were, or perhaps were, started under a limit not theirs.
        self.limited_starts = 0

    @property
    def waits_s(self) -> float | None:
        """Seconds for which containers wait until limits are lifted; None where none waits."""
        return self._state.deadline_s if self._state is not None and self._state.registered else None

    async def run(self) -> NoReturn:
        """Follow the start hook until cancelled."""
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
        if self._looks.requests_no_gpu(question.pod) or self._bound.is_lifted(question.pod):
            _answer(question, lifted=True)
        elif self._looks.waiting < MOST_WAITING:
            self._looks.ask(question.pod, partial(self._tell, question))

    def _tell(self, question: _Question, found: PodFound) -> None:
        _answer(question, lifted=not found.left)
        if not question.start.early:
            self._warn(question.start, found)

    def _warn(self, start: ContainerStart, found: PodFound) -> None:
        """Warn where the container was started before its limits were lifted."""
        late = self._state is None or self._clock() - start.asked_at_s > self._state.deadline_s
        limited = dict(found.left)
        if late:
            limited |= dict.fromkeys(found.lifted, "its limit was lifted after the container was started")
        if not limited:
            return
        self.limited_starts += 1
        which = "its GPU" if found.gpus is not None else "a GPU that may be its"
        uuid, text = min(limited.items())
        more = f"; {len(limited) - 1} more" if len(limited) > 1 else ""
        message = f"A container was started while {which}, {uuid}, was limited by class: {text}{more}"
        self._warn_pod(PodEvent(start.namespace, start.pod, start.uid, NOT_LIFTED_EVENT, message))


def _answer(question: _Question, *, lifted: bool) -> None:
    """Let the container start; a start hook that has gone does not wait."""
    if not question.writer.is_closing():
        question.writer.write(encode_line(StartAnswer(question.start.number, lifted)))
