"""Inputs and results of decisions about sleeping nodes.

Times are seconds since the epoch (in a simulation, since its start). Amounts of resources are in any unit that pods and
nodes share. None is unknown.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from joulie_core.kinds.node_bmc import DesiredPower, PowerState
from joulie_core.kinds.node_sleep_policy import SleepSettings, SpareOf
from joulie_core.names import NodeName
from joulie_core.pod import Term
from joulie_core.sleep.pod_terms import PodSpread, PodTerm
from joulie_core.sleep_state import SleepState


class SleepReason(StrEnum):
    """Reason for a node's state."""

    INITIAL = "initial"
    IDLE = "idle"
    CORDON_SEEN = "cordon_seen"
    EMPTY = "empty"
    OFF_CONFIRMED = "off_confirmed"
    READY = "ready"
    #: Why a node that was to sleep stays awake, or is woken.
    PENDING_PODS = "pending_pods"
    SPARE = "spare"
    MIN_AWAKE = "min_awake"
    ROLLOUT = "rollout"
    PODS_PRESENT = "pods_present"
    NOT_PERMITTED = "not_permitted"
    DRAIN_TIMEOUT = "drain_timeout"
    OFF_TIMEOUT = "off_timeout"
    BOOT_TIMEOUT = "boot_timeout"
    SWITCHED_ON = "switched_on"
    CLEARED = "cleared"
    REQUESTED = "requested"
    RECORD_LOST = "record_lost"
    #: Off by a request of Joulie's, without a record that says so.
    LEFT_OFF = "left_off"
    MAINTENANCE = "maintenance"


class SleepRefusal(StrEnum):
    """Reason why a node may not be put to sleep."""

    CONTROL_PLANE = "control_plane"
    NO_BMC = "no_bmc"
    POWER_OFF_NEVER = "power_off_never"
    #: Its BMC offers no graceful shutdown, and no person permits to force it off.
    SHUTDOWN_MISSING = "shutdown_missing"
    WAKE_UNPROVEN = "wake_unproven"
    BMC_UNKNOWN = "bmc_unknown"
    NOT_READY = "not_ready"
    UNSCHEDULABLE = "unschedulable"
    MAINTENANCE = "maintenance"
    POWER_REQUESTED = "power_requested"
    WAKE_REQUESTED = "wake_requested"
    PODS_UNKNOWN = "pods_unknown"
    ROLLOUT_WAITING = "rollout_waiting"
    #: It was powered off as often in a day as its policy permits.
    POWER_CYCLES = "power_cycles"


@dataclass(frozen=True, slots=True)
class NodeTaint:
    """A taint of a node that keeps pods away."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class PodToleration:
    """A toleration; an empty key tolerates every taint, an empty effect every effect, `value` None every value."""

    key: str = ""
    value: str | None = None
    effect: str = ""

    def tolerates(self, taint: NodeTaint) -> bool:
        """Return whether the taint is tolerated."""
        return self.key in ("", taint.key) and self.value in (None, taint.value) and self.effect in ("", taint.effect)


@dataclass(frozen=True, slots=True)
class SleepPod:
    """Properties of a pod that decide on which nodes it has room."""

    requests: Mapping[str, float]
    node_selector: Mapping[str, str] = field(default_factory=dict)
    #: Terms of the required node affinity, ORed; None without.
    required_terms: tuple[Term, ...] | None = None
    tolerations: tuple[PodToleration, ...] = ()
    namespace: str = ""
    #: Those that decide beside which pods it may run.
    labels: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    spreads: tuple[PodSpread, ...] = ()
    #: It asks for more than is simulated, such as ports of the host or volumes that are yet to be made.
    uncertain: bool = False
    #: kube-scheduler has found no node for it for so long that it finds none where there is room by this simulation.
    overdue: bool = False

    @property
    def asks_of_others(self) -> bool:
        """Whether the pods beside it decide where it has room."""
        return bool(self.affinity or self.anti_affinity or self.spreads)


@dataclass(frozen=True, slots=True)
class Shutdown:
    """A power-off that was requested of a server, or may have been."""

    #: Last time at which it may have been requested; None: unknown.
    at_s: float | None
    #: Boot ID of the Node then; empty: unknown.
    boot_id: str = ""
    #: Whether the BMC has read Off since.
    off_seen: bool = False
    #: Time, by the clock of the out-of-band service, of the answer that was the BMC's newest when the request was
    #: withdrawn: neither it nor an earlier one tells of the time since. None: any answer does.
    sampled_at_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePowerFacts:
    """Power of a node and state of its BMC, as its NodeBMC says."""

    state: PowerState
    #: Of the newest answer of the BMC.
    sampled_at_s: float | None
    reachable: bool | None
    wake_proven: bool | None
    off_allowed: bool
    #: The desired power that a person has written; Unmanaged without one.
    requested: DesiredPower = DesiredPower.UNMANAGED
    #: 95th percentile of the boots of this node; None before the first.
    boot_s: float | None = None
    #: The power-off that Joulie has requested and after which On was not confirmed; None without one.
    switched_off: Shutdown | None = None
    #: Whether the request to power on that is in force has reached the BMC.
    on_taken: bool = False
    #: Of the whole server, as the BMC measures it; None where it does not.
    watts: float | None = None
    #: Whether the server can be powered off, as far as its BMC has said how.
    way_off: bool = True
    #: False where there is a NodeBMC and it could not be read: then nothing of the others is known.
    readable: bool = True


#: Group of nodes that something else decides about, and that are only counted here; no family has this name.
OTHERS: Final = "\0others"
#: Of a node whose NodeBMC could not be read.
UNREADABLE_POWER: Final = NodePowerFacts(
    state=PowerState.UNKNOWN, sampled_at_s=None, reachable=None, wake_proven=None, off_allowed=False, readable=False
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepNode:
    """One node as it is seen now."""

    name: NodeName
    #: Nodes that stand in for each other: a hardware family or a pool.
    group: str
    zone: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    #: Without the taint of sleeping nodes and those of the node controller.
    taints: tuple[NodeTaint, ...] = ()
    #: Amounts that are left by the pods on the node; of a node that is off, by those of DaemonSets.
    free: Mapping[str, float]
    #: At the wall, on and without work.
    idle_watts: float
    control_plane: bool = False
    #: Cordoned by a person.
    unschedulable: bool = False
    #: What the kubelet's condition says.
    ready: bool | None
    #: The taint of sleeping nodes is on the Node.
    cordoned: bool = False
    #: Pods that must not be evicted, without those of DaemonSets and static ones; None: pods are unknown.
    protected_pods: int | None
    #: Pods that can be evicted.
    movable_pods: tuple[SleepPod, ...] = ()
    #: All pods on it; may be left out where no pod asks for anything of others.
    pods: Sequence[SleepPod] = ()
    #: A DaemonSet's roll-out waits for the node.
    rollout_waiting: bool = False
    #: None without a NodeBMC.
    power: NodePowerFacts | None
    #: A person wants it awake.
    wake_requested: bool = False
    #: A person works on the server: it is neither put to sleep nor woken.
    maintenance: bool = False
    #: What the kubelet says which boot of the server this is; empty: unknown.
    boot_id: str = ""
    #: A person has cleared the quarantine.
    quarantine_cleared: bool = False

    @property
    def empty(self) -> bool:
        """Whether it is known that no pod is on it but those of DaemonSets and static ones."""
        return self.protected_pods == 0 and not self.movable_pods

    def boot_s(self, most_s: float) -> float:
        """Return how long it usually takes to boot; before its first boot the longest time that is allowed."""
        known_s = self.power.boot_s if self.power is not None else None
        return most_s if known_s is None else min(known_s, most_s)

    @property
    def has_pods(self) -> bool:
        """Whether it is known that another pod is on it."""
        return bool(self.protected_pods or self.movable_pods)


def spare_key(node: SleepNode, settings: SleepSettings) -> Hashable:
    """Return what the spare nodes are counted by of which a node may be one."""
    # Nodes that others decide about may go to sleep at any time: they are no spare nodes of these.
    if settings.min_awake.spare_of is SpareOf.FAMILY or node.group == OTHERS:
        return node.group
    # Names of extended resources have a prefix; what is free of them is in `free` also where it is none.
    return frozenset(name for name in node.free if "/" in name)


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepRecord:
    """Record of a node: everything that a restarted controller needs."""

    state: SleepState = SleepState.AWAKE
    since_s: float
    reason: SleepReason = SleepReason.INITIAL
    #: Since when it has been idle while awake; None if it is not.
    idle_since_s: float | None = None
    #: Since when it is seen without pods, as `SleepNode.empty`; None if it is not.
    empty_since_s: float | None = None
    #: Boots that have failed since it was awake.
    failed_boots: int = 0
    #: Not put to sleep, and after a failed boot not woken, before.
    not_before_s: float = 0.0
    #: Times that its power was requested off.
    sleeps: int = 0
    #: When that was, within a day of the last time.
    cycles_s: tuple[float, ...] = ()
    #: The last power-off; None before the first.
    shutdown: Shutdown | None = None
    #: While it is being woken: since when the server boots for all that is known; None where that is not known.
    boots_since_s: float | None = None
    #: What it drew at the wall, on and without work, before it was put to sleep last; None: unknown.
    idle_watts: float | None = None
    #: Whether its BMC has measured that; else it is modelled.
    idle_measured: bool = False


@dataclass(frozen=True, slots=True)
class SleepIntent:
    """Actions to be taken on a node."""

    cordon: bool
    evict: bool
    power: DesiredPower
