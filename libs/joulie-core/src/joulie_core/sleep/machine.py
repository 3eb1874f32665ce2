"""The state machine of one node: what its own kubelet, BMC and pods make of its state.

Guarantees that a node is asked to power off only while it is cordoned and known to be without pods, that Asleep and
Awake are believed only when BMC and kubelet agree, that a server which may be shutting down is not awake, that the time
of a boot runs only while its BMC answers, that a node of which anything is unknown is not put to sleep, and that the
bound on power cycles, which are wear, keeps nodes awake and never off.
Which nodes are to sleep and which are needed is decided in `joulie_core.sleep.decide`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from joulie_core.kinds.node_bmc import STATUS_HEARTBEAT_S, DesiredPower, PowerState
from joulie_core.kinds.node_sleep_policy import SleepSettings
from joulie_core.sleep.consolidation import may_be_emptied
from joulie_core.sleep.model import NodePowerFacts, SleepIntent, SleepNode, SleepReason, SleepRecord, SleepRefusal
from joulie_core.sleep.power_cycles import cycles_of_day, with_cycle
from joulie_core.sleep.shutdowns import has_rebooted, longest_shutdown_s, may_go_off, noted, until_now, with_shutdown
from joulie_core.sleep_state import SleepState
from joulie_core.twin.server_power import MOST_INTERVALS

#: Seconds after which an answer of a BMC is unknown.
STALE_AFTER_S: Final = MOST_INTERVALS * STATUS_HEARTBEAT_S

#: In which a node draws what it does without work, once it is without pods.
_ON: Final = (SleepState.AWAKE, SleepState.CORDONED, SleepState.DRAINING)
_INTENTS: Final[Mapping[SleepState, SleepIntent]] = {
    # A node that is awake may be switched off by people, for maintenance.
    SleepState.AWAKE: SleepIntent(cordon=False, evict=False, power=DesiredPower.UNMANAGED),
    SleepState.CORDONED: SleepIntent(cordon=True, evict=False, power=DesiredPower.UNMANAGED),
    SleepState.DRAINING: SleepIntent(cordon=True, evict=True, power=DesiredPower.UNMANAGED),
    SleepState.POWERING_OFF: SleepIntent(cordon=True, evict=False, power=DesiredPower.OFF),
    SleepState.ASLEEP: SleepIntent(cordon=True, evict=False, power=DesiredPower.OFF),
    SleepState.WAKING: SleepIntent(cordon=True, evict=False, power=DesiredPower.ON),
    # It takes pods as soon as its kubelet is ready.
    SleepState.QUARANTINED: SleepIntent(cordon=False, evict=False, power=DesiredPower.UNMANAGED),
}


def intent_of(state: SleepState) -> SleepIntent:
    """Return what is to be done about a node in a state."""
    return _INTENTS[state]


def sleep_refusal(node: SleepNode, record: SleepRecord, now_s: float, settings: SleepSettings) -> SleepRefusal | None:
    """Return why a node may not be put to sleep, or must not go on to it, whatever its load; None if it may."""
    power = node.power
    refusals = (
        (node.control_plane, SleepRefusal.CONTROL_PLANE),
        (power is None, SleepRefusal.NO_BMC),
        (power is not None and not power.readable, SleepRefusal.BMC_UNKNOWN),
        (power is not None and not power.off_allowed, SleepRefusal.POWER_OFF_NEVER),
        (power is not None and not power.way_off, SleepRefusal.SHUTDOWN_MISSING),
        (power is not None and power.wake_proven is not True, SleepRefusal.WAKE_UNPROVEN),
        (power_state(power, now_s) is not PowerState.ON, SleepRefusal.BMC_UNKNOWN),
        (node.ready is not True, SleepRefusal.NOT_READY),
        (node.maintenance, SleepRefusal.MAINTENANCE),
        (node.unschedulable, SleepRefusal.UNSCHEDULABLE),
        (node.wake_requested, SleepRefusal.WAKE_REQUESTED),
        (
            power is not None and power.requested is not DesiredPower.UNMANAGED,
            SleepRefusal.POWER_REQUESTED,
        ),
        (node.protected_pods is None, SleepRefusal.PODS_UNKNOWN),
        (node.rollout_waiting, SleepRefusal.ROLLOUT_WAITING),
        # This bound keeps a node awake; it undoes nothing of one that is on its way already.
        (
            record.state is SleepState.AWAKE and cycles_of_day(record, now_s) >= settings.rates.power_cycles_per_day,
            SleepRefusal.POWER_CYCLES,
        ),
    )
    return next((refusal for holds, refusal in refusals if holds), None)


def power_state(power: NodePowerFacts | None, now_s: float) -> PowerState:
    """Return the power state by a BMC that is reachable and has answered lately, else Unknown."""
    if power is None or power.reachable is not True or power.sampled_at_s is None:
        return PowerState.UNKNOWN
    # Ahead of this clock it may have any age.
    return PowerState.UNKNOWN if abs(now_s - power.sampled_at_s) > STALE_AFTER_S else power.state


def moved(record: SleepRecord, state: SleepState, reason: SleepReason, now_s: float) -> SleepRecord:
    """Return the record of a node that goes to another state."""
    after = replace(record, state=state, reason=reason, since_s=now_s, idle_since_s=None, boots_since_s=None)
    return after if state in _ON else replace(after, empty_since_s=None)


def advance(record: SleepRecord, node: SleepNode, now_s: float, settings: SleepSettings) -> SleepRecord:
    """Return the next record of a node by what is seen of it."""
    if record.state in _ON and node.empty is (record.empty_since_s is None):
        record = replace(record, empty_since_s=now_s if node.empty else None)
    return with_cycle(record, _STEPS[record.state](record, node, now_s, settings), node, now_s)


def _awake(record: SleepRecord, node: SleepNode, now_s: float, settings: SleepSettings) -> SleepRecord:
    switched_off = _switched_off(record, node, now_s, settings)
    if switched_off is not None:
        return switched_off
    idle = node.empty or may_be_emptied(node, settings)
    since_s = record.idle_since_s
    if idle is (since_s is not None):
        return record
    return replace(record, idle_since_s=now_s if idle else None)


def _switched_off(record: SleepRecord, node: SleepNode, now_s: float, settings: SleepSettings) -> SleepRecord | None:
    """Return the record of a node that Joulie has switched off and that people took for awake; None of any other."""
    power = node.power
    if power is None or power.switched_off is None or power.requested is DesiredPower.OFF:
        return None
    seen = power_state(power, now_s)
    off = seen is PowerState.OFF
    # Neither BMC nor kubelet says that it is on.
    silent = seen is PowerState.UNKNOWN and node.ready is not True
    if not (off or silent or may_go_off(record, node, now_s, settings)):
        return None
    state = SleepState.ASLEEP if off and node.ready is False else SleepState.WAKING
    return noted(moved(record, state, SleepReason.LEFT_OFF, now_s), node, now_s, off=off)


def _cordoned(record: SleepRecord, node: SleepNode, now_s: float, settings: SleepSettings) -> SleepRecord:
    undone = _undone(record, node, now_s, settings)
    if undone is not None:
        return undone
    return moved(record, SleepState.DRAINING, SleepReason.CORDON_SEEN, now_s) if node.cordoned else record


def _draining(record: SleepRecord, node: SleepNode, now_s: float, settings: SleepSettings) -> SleepRecord:
    undone = _undone(record, node, now_s, settings)
    if undone is not None:
        return undone
    if not (node.cordoned and node.empty):
        return record
    return with_shutdown(moved(record, SleepState.POWERING_OFF, SleepReason.EMPTY, now_s), node, now_s)


def _undone(record: SleepRecord, node: SleepNode, now_s: float, settings: SleepSettings) -> SleepRecord | None:
    """Return the record of a node that is not to sleep after all; None if it still is."""
    if sleep_refusal(node, record, now_s, settings) is not None:
        reason = SleepReason.NOT_PERMITTED
    elif node.protected_pods:
        reason = SleepReason.PODS_PRESENT
    elif now_s - record.since_s > settings.drain_timeout_seconds:
        reason = SleepReason.DRAIN_TIMEOUT
    else:
        return None
    return replace(moved(record, SleepState.AWAKE, reason, now_s), not_before_s=now_s + settings.back_off_seconds)


def _powering_off(record: SleepRecord, node: SleepNode, now_s: float, settings: SleepSettings) -> SleepRecord:
    off = power_state(node.power, now_s) is PowerState.OFF
    record = noted(record, node, now_s, off=off)
    if off and node.ready is False:
        return moved(record, SleepState.ASLEEP, SleepReason.OFF_CONFIRMED, now_s)
    if node.maintenance:
        return record
    if not off and node.has_pods:
        return until_now(moved(record, SleepState.WAKING, SleepReason.PODS_PRESENT, now_s), node, now_s)
    if now_s - record.since_s > settings.off_timeout_seconds:
        waking = moved(record, SleepState.WAKING, SleepReason.OFF_TIMEOUT, now_s)
        waking = waking if off else until_now(waking, node, now_s)
        return replace(waking, not_before_s=now_s + settings.back_off_seconds)
    return record


def _asleep(record: SleepRecord, node: SleepNode, now_s: float, _: SleepSettings) -> SleepRecord:
    state = power_state(node.power, now_s)
    record = noted(record, node, now_s, off=state is PowerState.OFF)
    if node.maintenance:
        return record
    if state in (PowerState.ON, PowerState.POWERING_ON) or node.ready is True:
        return until_now(moved(record, SleepState.WAKING, SleepReason.SWITCHED_ON, now_s), node, now_s)
    if record.failed_boots and now_s >= record.not_before_s and not node.unschedulable:
        return moved(record, SleepState.WAKING, SleepReason.BOOT_TIMEOUT, now_s)
    return record


def _waking(record: SleepRecord, node: SleepNode, now_s: float, settings: SleepSettings) -> SleepRecord:
    state = power_state(node.power, now_s)
    record = noted(record, node, now_s, off=state is PowerState.OFF)
    if node.maintenance:
        is_off = state is PowerState.OFF and node.ready is False
        return moved(record, SleepState.ASLEEP, SleepReason.MAINTENANCE, now_s) if is_off else record
    going_off = may_go_off(record, node, now_s, settings)
    if _is_on(record, node, now_s, settings) and node.ready is True and not going_off:
        return replace(moved(record, SleepState.AWAKE, SleepReason.READY, now_s), failed_boots=0)
    if going_off or not _boots(state, node.power):
        return replace(record, boots_since_s=None)
    boots_since_s = now_s if record.boots_since_s is None else record.boots_since_s
    if now_s - boots_since_s <= settings.boot_timeout_seconds:
        return replace(record, boots_since_s=boots_since_s)
    failed = replace(record, failed_boots=record.failed_boots + 1)
    # A node that may have pods is not switched off for another attempt.
    without_pods = node.cordoned and node.empty and node.ready is False
    if failed.failed_boots >= settings.boot_attempts or not without_pods:
        return moved(failed, SleepState.QUARANTINED, SleepReason.BOOT_TIMEOUT, now_s)
    back_off_s = settings.back_off_seconds * 2.0 ** (failed.failed_boots - 1)
    off = moved(failed, SleepState.POWERING_OFF, SleepReason.BOOT_TIMEOUT, now_s)
    return with_shutdown(replace(off, not_before_s=now_s + back_off_s), node, now_s)


def _is_on(record: SleepRecord, node: SleepNode, now_s: float, settings: SleepSettings) -> bool:
    """Return whether a server that is being woken is on, where its kubelet is ready as well."""
    state = power_state(node.power, now_s)
    if state is not PowerState.UNKNOWN:
        return state is PowerState.ON
    # A BMC that does not answer is not needed where the kubelet says that the server has booted. Without a NodeBMC the
    # kubelet alone tells, and the Node of a server that is off does not stay ready for so long.
    return has_rebooted(record, node) or (node.power is None and now_s - record.since_s > longest_shutdown_s(settings))


def _boots(state: PowerState, power: NodePowerFacts | None) -> bool:
    """Return whether a server that is being woken boots, or its BMC was asked for it; False while that is unknown."""
    if state in (PowerState.ON, PowerState.POWERING_ON):
        return True
    return state is not PowerState.UNKNOWN and power is not None and power.on_taken


def _quarantined(record: SleepRecord, node: SleepNode, now_s: float, settings: SleepSettings) -> SleepRecord:
    if not node.quarantine_cleared or node.maintenance:
        return record
    cleared = replace(record, failed_boots=0, not_before_s=now_s + settings.back_off_seconds)
    state = SleepState.AWAKE if node.ready is True else SleepState.WAKING
    return moved(cleared, state, SleepReason.CLEARED, now_s)


_Step = Callable[[SleepRecord, SleepNode, float, SleepSettings], SleepRecord]
_STEPS: Final[Mapping[SleepState, _Step]] = {
    SleepState.AWAKE: _awake,
    SleepState.CORDONED: _cordoned,
    SleepState.DRAINING: _draining,
    SleepState.POWERING_OFF: _powering_off,
    SleepState.ASLEEP: _asleep,
    SleepState.WAKING: _waking,
    SleepState.QUARANTINED: _quarantined,
}
