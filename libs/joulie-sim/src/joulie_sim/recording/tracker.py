"""The course of every pod, from the changes that a watch delivers. No I/O.

Guarantees one line when a pod is bound or first seen bound, and one when it ends; of a pod that was never bound, one at
its end or at that of the recording. An end that nothing shows the time of, since the API server could not be read then,
is unknown. Memory is that of the pods that exist at the same time.
"""

from collections.abc import Callable
from dataclasses import dataclass

from joulie_sim.recording.lines import PodBegin, PodEnd, PodLine
from joulie_sim.recording.pod_facts import PodFacts
from joulie_sim.recording.pseudonyms import Pseudonyms


@dataclass(slots=True)
class _Track:
    begin: PodBegin
    facts: PodFacts
    bound_s: float | None = None
    started_s: float | None = None
    written: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    """When a change was delivered, in seconds since the epoch."""

    now_s: float
    #: The last time at which the watch was known to work, where changes may have happened since then; else None.
    behind_since_s: float | None = None
    #: Whether it belongs to the first list.
    first: bool = False


class PodTracker:
    """All pods that exist.

    Args:
        start_s: start of the recording, in seconds since the epoch.
        names: names of pods and nodes in lines.
        gpu_model: returns the GPU model of a node; None where it has none or is unknown.
        write: takes each line.
    """

    def __init__(
        self,
        *,
        start_s: float,
        names: Pseudonyms,
        gpu_model: Callable[[str], str | None],
        write: Callable[[PodLine], None],
    ) -> None:
        self._start_s = start_s
        self._names = names
        self._gpu_model = gpu_model
        self._write = write
        self._tracks: dict[str, _Track] = {}
        #: Pods seen, and bound at this moment.
        self.seen = 0
        self.running = 0

    @property
    def waiting(self) -> int:
        """Pods that are not bound."""
        return len(self._tracks) - self.running

    def change(self, old: PodFacts | None, new: PodFacts | None, moment: Moment) -> None:
        """Take a change of one pod, as a reflector delivers it."""
        if old is not None and (new is None or new.uid != old.uid):
            self._gone(old, moment)
            old = None
        if new is None or (old is not None and old.terminal):
            return
        if new.terminal and (moment.first or self._ended_before(new)):
            return
        track = self._tracks.get(new.uid)
        if track is None:
            track = self._tracks[new.uid] = _Track(PodBegin.BEFORE if moment.first else PodBegin.SEEN, new)
            self.seen += 1
        self._update(track, new, moment, was_waiting=old is not None and old.node is None)
        if new.terminal:
            self._end(track, new.finished_s, moment)

    def close(self, now_s: float) -> None:
        """Write the pods that still wait; those that are bound have been written."""
        for track in self._tracks.values():
            if not track.written:
                self._emit(track, PodEnd.OPEN, ended_s=None, seen_s=now_s)
        self._tracks.clear()

    def _ended_before(self, facts: PodFacts) -> bool:
        return facts.finished_s is not None and facts.finished_s < self._start_s - 1.0

    def _update(self, track: _Track, new: PodFacts, moment: Moment, *, was_waiting: bool) -> None:
        track.facts = new
        if new.started_s is not None and track.started_s is None:
            track.started_s = new.started_s
        if new.node is None:
            return
        if track.bound_s is None:
            # Without the condition, a binding that was seen happened now.
            seen_s = moment.now_s if was_waiting and moment.behind_since_s is None else None
            track.bound_s = new.bound_s if new.bound_s is not None else seen_s
        if not track.written:
            track.written = True
            self.running += 1
            self._emit(track, PodEnd.OPEN, ended_s=None, seen_s=moment.now_s)

    def _gone(self, old: PodFacts, moment: Moment) -> None:
        track = self._tracks.get(old.uid)
        if track is not None:
            self._end(track, None, moment)

    def _end(self, track: _Track, finished_s: float | None, moment: Moment) -> None:
        del self._tracks[track.facts.uid]
        self.running -= track.written
        if finished_s is None and moment.behind_since_s is None:
            finished_s = moment.now_s
        if finished_s is not None:
            self._emit(track, PodEnd.ENDED, ended_s=finished_s, seen_s=moment.now_s)
        else:
            self._emit(track, PodEnd.UNKNOWN, ended_s=None, seen_s=moment.behind_since_s or moment.now_s)

    def _emit(self, track: _Track, end: PodEnd, *, ended_s: float | None, seen_s: float) -> None:
        facts = track.facts
        self._write(
            PodLine(
                id=self._names.id(facts.uid),
                name=self._names.pod(facts.key),
                owner=facts.owner,
                workload_class=facts.workload_class,
                cpu_milli=facts.cpu_milli,
                memory_mib=facts.memory_mib,
                gpus=facts.gpus,
                gpu_resource=facts.gpu_resource,
                gpu_model=self._gpu_model(facts.node) if facts.gpus and facts.node is not None else None,
                claims=facts.claims,
                constrained=facts.constrained,
                node=None if facts.node is None else self._names.node(facts.node),
                begin=track.begin,
                end=end,
                arrives_s=self._since_start(facts.created_s),
                bound_s=self._since_start(track.bound_s),
                started_s=self._since_start(track.started_s),
                ended_s=self._since_start(ended_s),
                seen_s=round(seen_s - self._start_s, 3),
            )
        )

    def _since_start(self, epoch_s: float | None) -> float | None:
        return None if epoch_s is None else round(epoch_s - self._start_s, 3)
