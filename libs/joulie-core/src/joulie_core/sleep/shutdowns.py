"""Power-offs that were requested and may still cut a server that is on.

A server that shuts down looks awake: its BMC reads On, and its kubelet stays ready for a while. Guarantees that such a
server counts as one that may go off until its BMC has read Off, it has booted since, or no shutdown takes that long.
"""

from dataclasses import replace
from typing import Final

from joulie_core.kinds.node_bmc import GRACEFUL_OFF_S, POWER_REPEAT_S, STATUS_HEARTBEAT_S
from joulie_core.kinds.node_sleep_policy import SleepSettings
from joulie_core.sleep.model import Shutdown, SleepNode, SleepRecord

#: What a shutdown takes at most by the defaults of the out-of-band service: forced off, that once more, and read.
_OUT_OF_BAND_S: Final = GRACEFUL_OFF_S + POWER_REPEAT_S + STATUS_HEARTBEAT_S


def longest_shutdown_s(settings: SleepSettings) -> float:
    """Return the seconds after which a power-off that was requested has cut the server, or will not any more."""
    return max(settings.off_timeout_seconds, _OUT_OF_BAND_S)


def marked_shutdown(node: SleepNode) -> Shutdown | None:
    """Return the power-off that the NodeBMC remembers; None without one."""
    return node.power.switched_off if node.power is not None else None


def may_go_off(record: SleepRecord, node: SleepNode, now_s: float, settings: SleepSettings) -> bool:
    """Return whether a power-off was requested that may still be carried out."""
    shutdown = record.shutdown or marked_shutdown(node)
    if shutdown is None or shutdown.off_seen or has_rebooted(record, node):
        return False
    return shutdown.at_s is None or now_s - shutdown.at_s <= longest_shutdown_s(settings)


def has_rebooted(record: SleepRecord, node: SleepNode) -> bool:
    """Return whether the kubelet is that of another boot than the one that was asked to end; False while unknown."""
    asked = {each.boot_id for each in (record.shutdown, marked_shutdown(node)) if each is not None}
    return bool(asked) and "" not in {*asked, node.boot_id} and node.boot_id not in asked


def with_shutdown(record: SleepRecord, node: SleepNode, now_s: float) -> SleepRecord:
    """Return the record of a node whose power-off may be requested from now on."""
    return replace(record, shutdown=Shutdown(now_s, node.boot_id))


def until_now(record: SleepRecord, node: SleepNode, now_s: float) -> SleepRecord:
    """Return the record of a node whose power-off is withdrawn now, while its server is not off.

    Until now it may have been requested: of a server that was off and is on again, once more, and of its newest boot.
    An answer of its BMC from before says nothing of that.
    """
    shutdown = record.shutdown
    if shutdown is None:
        return record
    boot_id = "" if shutdown.off_seen else shutdown.boot_id
    return replace(record, shutdown=Shutdown(now_s, boot_id, sampled_at_s=_sampled_at_s(node)))


def noted(record: SleepRecord, node: SleepNode, now_s: float, *, off: bool) -> SleepRecord:
    """Return the record with what the NodeBMC remembers and what its BMC reads."""
    shutdown = record.shutdown
    if shutdown is None:
        marked = marked_shutdown(node)
        if marked is None:
            return record
        shutdown = replace(marked, at_s=now_s)
    before, sampled_at_s = shutdown.sampled_at_s, _sampled_at_s(node)
    counts = before is None or (sampled_at_s is not None and sampled_at_s > before)
    return replace(record, shutdown=replace(shutdown, off_seen=shutdown.off_seen or (off and counts)))


def _sampled_at_s(node: SleepNode) -> float | None:
    return node.power.sampled_at_s if node.power is not None else None
