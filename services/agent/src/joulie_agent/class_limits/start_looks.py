"""Looks at the GPUs of pods whose containers are about to start, one look after the other, and what each lifts.

Guarantees that the kubelet is asked after a pod was asked about, and that a pod is told what was found after the
actuator has answered; a look that fails by a defect tells nothing and ends nothing. Pods that are asked about during a
look share the next one. Source: docs/decisions/0059-limits-lifted-before-start.md.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from joulie_agent.class_limits.before_start import LiftOutcome, StartLook
from joulie_api.failures import Failures
from joulie_core.holders.held import NodePods, held_devices
from joulie_core.holders.pod_gpus import StartingPod, gpus_of_pod, requests_no_gpu
from joulie_core.holders.records import DeviceListing, DeviceUsers, NodeGpu, NoListing

_WORK: Final = "limits lifted before a start"

Lift = Callable[[StartLook], Awaitable[LiftOutcome]]
#: Called with what was found; never where the look fails.
Then = Callable[["PodFound"], None]


@dataclass(frozen=True, slots=True)
class LookSources:
    """Sources of what a starting pod has."""

    #: The kubelet's answer to a question that is asked now, within a deadline.
    listing: Callable[[], Awaitable[DeviceListing | NoListing]]
    pods: Callable[[], NodePods | None]
    gpus: Callable[[], Sequence[NodeGpu]]
    #: What uses each GPU, by UUID; None where that is not looked for.
    users: Callable[[], Mapping[str, DeviceUsers] | None]


@dataclass(frozen=True, slots=True)
class PodFound:
    """The result of a look for one pod."""

    #: UUIDs of its GPUs; None where these are not certain: any GPU may be one.
    gpus: frozenset[str] | None
    #: Those, of all GPUs where they are not certain, that had a limit which is not the pod's.
    lifted: frozenset[str]
    #: Why such a limit is still there, or perhaps there, as a sentence, by UUID.
    left: Mapping[str, str]


_Pods = Collection[tuple[StartingPod, Then]]


class StartLooks:
    """Looks at pods that are asked about, made by `run`."""

    def __init__(self, sources: LookSources, failures: Failures) -> None:
        self._sources = sources
        self._failures = failures
        self._asked: list[tuple[StartingPod, Then]] = []
        self._ahead: dict[StartingPod, Then] = {}
        self._woken = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Questions whose look has not begun."""
        return len(self._asked)

    def requests_no_gpu(self, pod: StartingPod) -> bool:
        """Return whether it is certain that a pod requests no GPU."""
        return requests_no_gpu(pod, self._sources.pods())

    def ask(self, pod: StartingPod, then: Then) -> None:
        """Look at a pod that waits; where its GPUs are not certain, all limits are lifted."""
        self._asked.append((pod, then))
        self._woken.set()

    def ask_ahead(self, pod: StartingPod, then: Then) -> None:
        """Look at a pod that does not wait yet; where its GPUs are not certain, nothing is lifted for it."""
        self._ahead[pod] = then
        self._woken.set()

    async def run(self, lift: Lift) -> NoReturn:
        """Look until cancelled; `lift` lifts the limits of GPUs."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            asked, self._asked = self._asked, []
            ahead, self._ahead = self._ahead, {}
            try:
                await self._look(asked, ahead.items(), lift)
            except Exception as error:  # noqa: BLE001 - a defect must not end what holds caps; limits are polled
                self._failures.internal_error(_WORK, error)
            else:
                self._failures.worked(_WORK)

    async def _look(self, asked: _Pods, ahead: _Pods, lift: Lift) -> None:
        listing = await self._sources.listing()
        pods, gpus = self._sources.pods(), self._sources.gpus()

        def found(of: _Pods) -> list[tuple[Then, frozenset[str] | None]]:
            return [(then, gpus_of_pod(pod, listing, pods, gpus)) for pod, then in of]

        waiting, early = found(asked), found(ahead)
        judged = [uuids for _, uuids in waiting] + [uuids for _, uuids in early if uuids is not None]
        outcome = LiftOutcome()
        if judged:
            known = [uuids for uuids in judged if uuids is not None]
            all_known = frozenset[str]().union(*known) if len(known) == len(judged) else None
            outcome = await lift(StartLook(held_devices(listing, pods, gpus, self._sources.users()), all_known))
        for then, uuids in (*waiting, *early):
            then(_of_pod(outcome, uuids))


def _of_pod(outcome: LiftOutcome, uuids: frozenset[str] | None) -> PodFound:
    if uuids is None:
        return PodFound(None, outcome.lifted, outcome.left)
    left = {uuid: text for uuid, text in outcome.left.items() if uuid in uuids}
    return PodFound(uuids, outcome.lifted & uuids, left)
