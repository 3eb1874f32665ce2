"""Recording of a live cluster: watches nodes and pods, and writes what it sees. Changes nothing in the cluster."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

import msgspec

from joulie_api.client import KubeClient
from joulie_api.permissions import Grant
from joulie_api.reflector import Reflector
from joulie_api.resources import NODES as NODE_RESOURCE
from joulie_api.resources import PODS as POD_RESOURCE
from joulie_api.resources import Resource
from joulie_api.wire import decode_node
from joulie_core.node import Node
from joulie_core.timestamps import rfc3339
from joulie_sim.recording.files import RecordingFiles
from joulie_sim.recording.lines import (
    FORMAT,
    LOG,
    NODES,
    PODS,
    ContactLine,
    EndLine,
    GapLine,
    NodeChangeLine,
    StartLine,
)
from joulie_sim.recording.node_recorder import NodeRecorder
from joulie_sim.recording.observed_watch import ObservedWatch
from joulie_sim.recording.pod_facts import PodFacts, decode_pod_facts
from joulie_sim.recording.pseudonyms import Pseudonyms
from joulie_sim.recording.tracker import Moment, PodTracker

READ: Final = Grant((NODE_RESOURCE, POD_RESOURCE), ("get", "list", "watch"))
_ROLE: Final = "joulie-record"
_TICK_S: Final = 1.0
_CONTACT_S: Final = 60.0


class RecorderError(Exception):
    """A recording cannot begin; the message has the reason."""


@dataclass(frozen=True, slots=True)
class RecorderProgress:
    """A recording so far."""

    elapsed_s: float
    nodes: int
    pods: int
    running: int
    waiting: int
    gaps: int
    written_bytes: int
    #: Why the API server cannot be read at this moment; None where it can.
    problem: str | None


def role_manifest() -> str:
    """Return the ClusterRole that a recording needs, as JSON."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": _ROLE},
        "rules": [READ.rule()],
    }
    return msgspec.json.format(msgspec.json.encode(role), indent=2).decode()


class ClusterRecorder:
    """One recording; `run` may be called once.

    Args:
        client: may list and watch nodes and pods.
        files: where the recording is written.
        keep_names: whether names of pods, namespaces and nodes are written instead of pseudonyms.
        clock: returns the seconds since the epoch.
    """

    def __init__(
        self,
        client: KubeClient,
        files: RecordingFiles,
        *,
        keep_names: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._files = files
        self._names = Pseudonyms(keep=keep_names)
        self._clock = clock
        self._start_s = clock()
        self._gaps = 0
        self._watches = {resource.plural: self._watch(client, resource) for resource in (NODE_RESOURCE, POD_RESOURCE)}
        self._node_reflector = Reflector(self._watches["nodes"], NODE_RESOURCE, decode_node)
        self._pod_reflector = Reflector(self._watches["pods"], POD_RESOURCE, decode_pod_facts)
        self._nodes = NodeRecorder(names=self._names, write=lambda line: files.append(NODES, line))
        self._pods = PodTracker(
            start_s=self._start_s,
            names=self._names,
            gpu_model=self._nodes.gpu_model,
            write=lambda line: files.append(PODS, line),
        )
        self._node_reflector.subscribe(self._node_changed)
        self._pod_reflector.subscribe(self._pod_changed)

    async def run(
        self, stop: asyncio.Event, *, on_progress: Callable[[RecorderProgress], None] = lambda _progress: None
    ) -> RecorderProgress:
        """Record until `stop` is set or this task is cancelled; the files are complete then.

        Raises:
            RecorderError: nodes or pods cannot be read at the start.
            ExceptionGroup: of OSError, if the files cannot be written.
        """
        async with asyncio.TaskGroup() as group:
            tasks = []
            try:
                # Nodes first: the GPU model of a pod is that of its node.
                for reflector in (self._node_reflector, self._pod_reflector):
                    tasks.append(group.create_task(reflector.run()))
                    await _synced(reflector)
                    if reflector is self._node_reflector:
                        self._begin()
                await self._follow(stop, on_progress)
            finally:
                for task in tasks:
                    task.cancel()
                if self._pod_reflector.synced.is_set():
                    self._finish()
        return self.progress()

    def progress(self) -> RecorderProgress:
        """Return the state of the recording."""
        return RecorderProgress(
            elapsed_s=self._clock() - self._start_s,
            nodes=len(self._nodes),
            pods=self._pods.seen,
            running=self._pods.running,
            waiting=self._pods.waiting,
            gaps=self._gaps,
            written_bytes=self._files.written_bytes,
            problem=self._pod_reflector.problem or self._node_reflector.problem,
        )

    async def _follow(self, stop: asyncio.Event, on_progress: Callable[[RecorderProgress], None]) -> None:
        next_contact_s = self._clock() + _CONTACT_S
        while not stop.is_set():
            self._files.flush()
            on_progress(self.progress())
            if self._clock() >= next_contact_s:
                next_contact_s += _CONTACT_S
                self._files.append(LOG, ContactLine(at_s=self._contact_s()))
                self._files.flush()
                # In a thread: a slow disk must not hold up the watches.
                await asyncio.to_thread(self._files.sync)
            try:
                async with asyncio.timeout(_TICK_S):
                    await stop.wait()
            except TimeoutError:
                continue

    def _contact_s(self) -> float:
        """Return the time until which the recording is complete.

        An open watch that is silent counts as working; that it was not shows as a gap later.
        """
        contact_s = self._watches["pods"].contact_s
        if self._pod_reflector.problem is None or contact_s is None:
            contact_s = self._clock()
        return self._since_start(contact_s)

    def _begin(self) -> None:
        line = StartLine(
            format=FORMAT,
            started_at=rfc3339(self._start_s),
            version=version("joulie-sim"),
            names_kept=self._names.keep,
            under_joulie=self._nodes.under_joulie,
        )
        self._files.append(LOG, line)
        self._files.flush()

    def _finish(self) -> None:
        now_s = self._clock()
        for name, reflector in (("nodes", self._node_reflector), ("pods", self._pod_reflector)):
            contact_s = self._watches[name].contact_s
            if reflector.problem is not None and contact_s is not None:
                self._gap(name, contact_s, now_s)
        self._pods.close(now_s)
        self._files.append(LOG, EndLine(at_s=self._contact_s()))
        self._files.flush()
        self._files.sync()

    def _watch(self, client: KubeClient, resource: Resource) -> ObservedWatch:
        return ObservedWatch(
            client, clock=self._clock, on_gap=lambda from_s, to_s: self._gap(resource.plural, from_s, to_s)
        )

    def _gap(self, resource: str, from_s: float, to_s: float) -> None:
        self._gaps += 1
        line = GapLine(resource=resource, from_s=self._since_start(from_s), to_s=self._since_start(to_s))
        self._files.append(LOG, line)

    def _node_changed(self, key: str, old: Node | None, new: Node | None) -> None:
        self._nodes.change(key, new)
        if self._node_reflector.synced.is_set() and (old is None or new is None):
            change = NodeChangeLine(
                at_s=self._since_start(self._clock()), node=self._names.node(key), removed=new is None
            )
            self._files.append(LOG, change)

    def _pod_changed(self, _key: str, old: PodFacts | None, new: PodFacts | None) -> None:
        moment = Moment(
            self._clock(),
            self._watches["pods"].behind_since_s,
            first=not self._pod_reflector.synced.is_set(),
        )
        self._pods.change(old, new, moment)

    def _since_start(self, epoch_s: float) -> float:
        return round(epoch_s - self._start_s, 3)


async def _synced(reflector: "Reflector[Node] | Reflector[PodFacts]") -> None:
    """Wait until the first list is complete.

    Raises:
        RecorderError: it cannot be read.
    """
    while not reflector.synced.is_set():
        if reflector.problem is not None:
            raise RecorderError(f"{reflector.name} cannot be read: {reflector.problem}")
        try:
            async with asyncio.timeout(_TICK_S / 4):
                await reflector.wait_synced()
        except TimeoutError:
            continue
