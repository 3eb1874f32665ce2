"""The servers of the campaign, each behind a simulated Redfish BMC: what their power does, and when a kubelet runs.

A server that shuts down is On to its BMC, and its kubelet is ready, until its power goes: nothing outside tells it from
one that runs. One that was asked to power on meanwhile goes off all the same.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

from tools.sleep_campaign.journal import Journal

from joulie_sim.bmc.machine import STANDBY_WATTS

#: Until the BMC says that a server is on, after it was asked to power on.
_POWER_ON_S: Final = (0.5, 4.0)
_FORCED_OFF_S: Final = 1.0
_IDLE_WATTS: Final = 190.0
#: One in so many servers tells its BMC that it shuts down, one in so many has a kubelet that knows of it, and one in so
#: many shutdowns is ignored.
_TELLING, _GRACEFUL, _IGNORING = 4, 2, 25
#: A kubelet that knows of a shutdown ends its pods within so many seconds.
_ENDED_S: Final = 4.0


class ServerPhase(StrEnum):
    """State of a server."""

    OFF = "off"
    STARTING = "starting"
    BOOTING = "booting"
    UP = "up"
    SHUTTING_DOWN = "shutting down"


@dataclass(frozen=True, slots=True)
class ServerTimes:
    """Durations of boots and shutdowns, in seconds: from, to."""

    boot_s: tuple[float, float] = (90.0, 300.0)
    shutdown_s: tuple[float, float] = (5.0, 120.0)


@dataclass(slots=True)
class ServerHooks:
    """Calls to others when the power of a server changes."""

    asked_off: Callable[["CampaignServer"], None] = lambda _server: None
    shuts_down: Callable[["CampaignServer"], None] = lambda _server: None
    pods_ended: Callable[["CampaignServer"], None] = lambda _server: None
    went_off: Callable[["CampaignServer"], None] = lambda _server: None
    came_up: Callable[["CampaignServer"], None] = lambda _server: None


class CampaignServer:
    """One server, as `joulie_sim.bmc.service.SimulatedBmc` takes it.

    `by_service` is whether the power that it has now was requested at the BMC; `resets` are these requests with the
    times at which they had their effect. `graceful` is whether its kubelet has a `shutdownGracePeriod`: it then says
    that it is not ready when the server shuts down, refuses pods, and ends those that it has.
    """

    def __init__(self, name: str, dice: Random, times: ServerTimes, journal: Journal, hooks: ServerHooks) -> None:
        self.name = name
        self.phase = ServerPhase.UP
        self.limit_watts: float | None = None
        self.boots = 1
        #: The longest that a boot of this server takes.
        self.boot_s = dice.uniform(*times.boot_s)
        self.by_service = False
        self.resets: list[tuple[float, str]] = []
        self.changed_at_s = 0.0
        #: When the request was sent that is carried out now, or was last.
        self.asked_at_s = 0.0
        self._loop = asyncio.get_running_loop()
        self.graceful = dice.randrange(_GRACEFUL) == 0
        self._tells = dice.randrange(_TELLING) == 0
        self._dice, self._times, self._journal, self._hooks = dice, times, journal, hooks
        self._timers: list[asyncio.TimerHandle] = []

    # --- what the BMC reads -------------------------------------------------------------------------------------------

    @property
    def power_state(self) -> str:
        """The power state of Redfish."""
        if self.phase is ServerPhase.SHUTTING_DOWN:
            return "PoweringOff" if self._tells else "On"
        if self.phase is ServerPhase.STARTING:
            return "PoweringOn" if self._tells else "Off"
        return "Off" if self.phase is ServerPhase.OFF else "On"

    @property
    def watts(self) -> float:
        """Power at this moment."""
        return STANDBY_WATTS if self.is_off else _IDLE_WATTS

    def reading(self) -> float:
        """Return the power reading."""
        return self.watts

    def reset(self, kind: str) -> None:
        """Carry out a reset type that was requested at the BMC."""
        self._journal.note(self.name, f"reset: {kind} while {self.phase.value}")
        self.resets.append((self._loop.time(), kind))
        if kind in {"GracefulShutdown", "PushPowerButton"} and self.phase is ServerPhase.UP:
            self.by_service = True
            self._hooks.asked_off(self)
            if self._dice.randrange(_IGNORING):
                self._shut_down(self._dice.uniform(*self._times.shutdown_s))
            else:
                self._journal.note(self.name, "server: ignores the shutdown")
        elif kind == "ForceOff" and not self.is_off:
            self.by_service = True
            self._after(_FORCED_OFF_S, self._go_off)
        elif kind in {"On", "ForceOn", "PushPowerButton"} and self.is_off:
            self.by_service = True
            self._start()

    # --- what else happens to it --------------------------------------------------------------------------------------

    @property
    def is_off(self) -> bool:
        """Whether it has no power."""
        return self.phase is ServerPhase.OFF

    @property
    def has_kubelet(self) -> bool:
        """Whether its kubelet runs."""
        return self.phase in {ServerPhase.UP, ServerPhase.SHUTTING_DOWN}

    @property
    def takes_pods(self) -> bool:
        """Whether its kubelet starts pods."""
        return self.has_kubelet and not (self.graceful and self.phase is ServerPhase.SHUTTING_DOWN)

    @property
    def boot_id(self) -> str:
        """Identifier of the boot that it is in, or was in."""
        return f"{self.name}-boot-{self.boots}"

    def note_asked(self, at_s: float) -> None:
        """Take the time at which a reset was sent to the BMC."""
        self.asked_at_s = at_s

    def push_button(self) -> None:
        """Have a person power it on at the front."""
        if self.is_off:
            self.by_service = False
            self._start()

    def _start(self) -> None:
        self._enter(ServerPhase.STARTING)
        self._after(self._dice.uniform(*_POWER_ON_S), self._boot)

    def _boot(self) -> None:
        self._enter(ServerPhase.BOOTING)
        self._after(self.boot_s * self._dice.uniform(0.7, 0.98), self._come_up)

    def _come_up(self) -> None:
        self.boots += 1
        self._enter(ServerPhase.UP)
        self._hooks.came_up(self)

    def _shut_down(self, takes_s: float) -> None:
        self._enter(ServerPhase.SHUTTING_DOWN)
        if self.graceful:
            self._hooks.shuts_down(self)
            self._after(min(_ENDED_S, takes_s / 2), lambda: self._hooks.pods_ended(self))
        self._after(takes_s, self._go_off)

    def _go_off(self) -> None:
        self._hooks.went_off(self)
        self._enter(ServerPhase.OFF)

    def _enter(self, phase: ServerPhase) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self.phase = phase
        self.changed_at_s = self._loop.time()
        self._journal.note(self.name, f"server: {phase.value}")

    def _after(self, delay_s: float, then: Callable[[], None]) -> None:
        self._timers.append(self._loop.call_later(delay_s, then))
