"""Energy of single pods until they have ended, for one receipt each.

Guarantees that a pod has at most one receipt, and none without energy that was stated of it while it was active; that a
pod which cannot be read has not ended; and that a receipt says since when its pod was followed, where that was not from
its start. The number of pods that are followed is bounded: those that come past it have no receipt.
Source: docs/decisions/0063-receipts.md.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from joulie_core.attribution.energy import EnergyKind, StatedEnergy
from joulie_core.attribution.sums import EnergySum
from joulie_core.attribution.totals import MeteredDevice
from joulie_core.holders.records import NodePod

#: Pods that are followed; a kubelet runs 110 by default.
MOST_PODS: Final = 1024
#: Seconds from a pod's end to its receipt: an interval of a GPU is judged one reading later than it ended.
SETTLE_S: Final = 40.0
#: `status.startTime` is cut to seconds.
_START_RESOLUTION_S: Final = 1.0

EnergyKey = tuple[MeteredDevice, EnergyKind]


@dataclass(frozen=True, slots=True)
class PodReceipt:
    """Energy of one pod that has ended."""

    namespace: str
    pod: str
    uid: str
    #: Seconds since the epoch; None where it is not known.
    started_at_s: float | None
    #: When its energy began to be followed, in seconds since the epoch.
    since_s: float
    #: When it was first seen to have ended, in seconds since the epoch.
    ended_at_s: float
    energy: Mapping[EnergyKey, EnergySum]
    #: Seconds of intervals in which it ran and the energy of CPUs was not split.
    cpu_uncounted_s: float
    #: Whether it requested GPUs.
    has_gpus: bool

    @property
    def from_start(self) -> bool:
        """Whether it was followed from its start."""
        return self.started_at_s is not None and self.started_at_s + _START_RESOLUTION_S >= self.since_s

    @property
    def begins_at_s(self) -> float:
        """When the energy begins, in seconds since the epoch."""
        return max(self.since_s, self.started_at_s or 0.0)


@dataclass(slots=True)
class _Followed:
    pod: NodePod
    since_s: float
    #: As it was at first: an annotation, which may be changed and may be another pod's UID.
    cgroup_uid: str
    energy: dict[EnergyKey, EnergySum] = field(default_factory=dict)
    cpu_uncounted_s: float = 0.0
    ended_at_s: float | None = None


class ReceiptBook:
    """The pods of a node that have not had their receipt; mutable, for one thread.

    With each reading of the counters first `looked` is called, then `add`, then `due`.
    """

    def __init__(self) -> None:
        #: Wall time of the last reading; None before the first.
        self._read_at_s: float | None = None
        #: By UID.
        self._followed: dict[str, _Followed] = {}
        #: UID of the pod by what energy is stated of: its UID, or that of its cgroup.
        self._uids: dict[str, str] = {}

    def looked(self, pods: Mapping[str, NodePod] | None, unreadable: Collection[str], now_s: float) -> None:
        """Take over which pods there are.

        Args:
            pods: by `namespace/name`; None while they are not known, which ends none.
            unreadable: keys of pods that are there and cannot be read.
            now_s: wall time of the reading, in seconds since the epoch.
        """
        # What is added next is the energy since the last reading.
        since_s, self._read_at_s = now_s if self._read_at_s is None else self._read_at_s, now_s
        if pods is None:
            return
        active = {pod.uid: pod for pod in pods.values() if pod.active and pod.uid}
        for uid, followed in self._followed.items():
            if uid in active:
                followed.pod, followed.ended_at_s = active[uid], None
            elif followed.ended_at_s is None and followed.pod.key not in unreadable:
                followed.ended_at_s = now_s
        for uid, pod in active.items():
            if uid not in self._followed and len(self._followed) < MOST_PODS:
                self._followed[uid] = _Followed(pod, since_s, pod.cgroup_uid)
                self._uids[uid] = uid
                self._uids.setdefault(pod.cgroup_uid, uid)

    def add(self, device: MeteredDevice, stated: StatedEnergy, seconds: float) -> None:
        """Add the energy of one interval of `seconds`; that of pods which are not followed is passed over."""
        counted = set()
        for energy in stated.pods:
            uid = self._uids.get(energy.holder)
            if uid is None:
                continue
            counted.add(uid)
            sums, key = self._followed[uid].energy, (device, energy.kind)
            sums[key] = sums.get(key, EnergySum()).plus(energy)
        if device is MeteredDevice.CPU:
            for uid, followed in self._followed.items():
                if uid not in counted and followed.pod.running and followed.ended_at_s is None:
                    followed.cpu_uncounted_s += seconds

    def due(self, now_s: float) -> list[PodReceipt]:
        """Return the receipts of pods that have ended long enough ago, each once."""
        ended = [
            (uid, followed, followed.ended_at_s)
            for uid, followed in self._followed.items()
            if followed.ended_at_s is not None and now_s - followed.ended_at_s >= SETTLE_S
        ]
        for uid, followed, _ in ended:
            del self._followed[uid]
            for each in {uid, followed.cgroup_uid}:
                if self._uids.get(each) == uid:
                    del self._uids[each]
        return [_receipt(followed, at_s) for _, followed, at_s in ended if followed.energy]


def _receipt(followed: _Followed, ended_at_s: float) -> PodReceipt:
    pod = followed.pod
    return PodReceipt(
        namespace=pod.namespace,
        pod=pod.name,
        uid=pod.uid,
        started_at_s=pod.started_at_s,
        since_s=followed.since_s,
        ended_at_s=ended_at_s,
        energy=dict(followed.energy),
        cpu_uncounted_s=followed.cpu_uncounted_s,
        has_gpus=bool(pod.units or pod.claims or pod.unreadable),
    )
