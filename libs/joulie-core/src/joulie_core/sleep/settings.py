"""Settings of sleeping nodes."""

from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from joulie_core import labels
from joulie_core.kinds.node_bmc import GRACEFUL_OFF_S, POWER_REPEAT_S, STATUS_HEARTBEAT_S
from joulie_core.kinds.node_sleep_policy import MOST_CYCLES, NodeSleepPolicySpec
from joulie_core.twin.server_power import MOST_INTERVALS

_Duration = Annotated[float, Field(ge=0)]
#: What a shutdown takes at most by the defaults of the out-of-band service: forced off, that once more, and read.
_LONGEST_SHUTDOWN_S: Final = GRACEFUL_OFF_S + POWER_REPEAT_S + STATUS_HEARTBEAT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class AwakeWindow:
    """A time of the week in which more nodes stay awake; it does not go beyond midnight."""

    #: Monday is 0.
    weekdays: frozenset[int]
    #: Minutes since midnight in the time zone; the end is outside.
    from_minute: int
    to_minute: int
    time_zone: tzinfo
    #: Nodes of each group.
    min_awake: int

    def covers(self, from_s: float, to_s: float) -> bool:
        """Return whether a part of the window is between two times, both included."""
        first, last = (datetime.fromtimestamp(at_s, tz=self.time_zone).date() for at_s in (from_s, to_s))
        days = (first + timedelta(days=number) for number in range((last - first).days + 1))
        for day in days:
            # Minutes of the clock, also on days that are longer or shorter.
            midnight = datetime.combine(day, time(), self.time_zone)
            begins, ends = (midnight + timedelta(minutes=each) for each in (self.from_minute, self.to_minute))
            if day.weekday() in self.weekdays and begins.timestamp() <= to_s and from_s < ends.timestamp():
                return True
        return False


#: The defaults of a policy.
_SHIPPED: Final = NodeSleepPolicySpec(node_selector={labels.MANAGED: "true"})


class SleepSettings(BaseModel):
    """Limits and times of sleeping nodes, as the decision takes them."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    min_awake: Annotated[int, Field(ge=0)] = _SHIPPED.min_awake.count
    """Nodes of each group that stay awake."""
    spare: Annotated[int, Field(ge=0)] = _SHIPPED.min_awake.spare
    """Nodes of each group that stay awake without pods."""
    max_asleep_pct: Annotated[float, Field(ge=0, le=50)] = _SHIPPED.max_asleep_percent
    """Highest share of the nodes of a zone that are off or not ready, in percent."""
    idle_for_s: _Duration = _SHIPPED.idle_seconds
    """Seconds for which a node has been idle before it is put to sleep."""
    min_awake_for_s: _Duration = _SHIPPED.min_awake_seconds
    """Seconds for which a node stays awake at least."""
    drain_below_pct: Annotated[float, Field(ge=0, le=100)] = _SHIPPED.drain_below_percent
    """A node counts as idle up to this share of a resource in pods that can be evicted, in percent."""
    drain_timeout_s: _Duration = _SHIPPED.drain_timeout_seconds
    """Seconds after which a drain that is not done is undone."""
    off_timeout_s: _Duration = _SHIPPED.off_timeout_seconds
    """Seconds after which a node that is not off is switched on again."""
    boot_timeout_s: _Duration = _SHIPPED.boot_timeout_seconds
    """Seconds after which a boot has failed."""
    boot_attempts: Annotated[int, Field(ge=1)] = _SHIPPED.boot_attempts
    """Boots in a row that fail before the node is quarantined."""
    back_off_s: _Duration = _SHIPPED.back_off_seconds
    """Seconds after a failure before the next attempt; doubled after each failed boot."""
    stale_after_s: _Duration = MOST_INTERVALS * STATUS_HEARTBEAT_S
    """Seconds after which an answer of a BMC is unknown."""
    max_powering_off: Annotated[int, Field(ge=1)] = _SHIPPED.rates.powering_off
    """Nodes that are being put to sleep at a time."""
    max_waking: Annotated[int, Field(ge=1)] = _SHIPPED.rates.waking
    """Nodes that are being woken at a time."""
    max_waking_per_rack: Annotated[int, Field(ge=1)] = _SHIPPED.rates.waking_per_rack
    """Nodes of one rack that are being woken at a time."""
    rack_label: str = _SHIPPED.rack_label
    """Key of the label that names the rack of a node; nodes without it share one."""
    max_cycles_per_day: Annotated[int, Field(ge=1, le=MOST_CYCLES)] = _SHIPPED.rates.power_cycles_per_day
    """Times in 24 hours that the power of a node is requested off before it is not put to sleep any more."""

    @property
    def shutdown_s(self) -> float:
        """Seconds after which a power-off that was requested has cut the server, or will not any more."""
        return max(self.off_timeout_s, _LONGEST_SHUTDOWN_S)
