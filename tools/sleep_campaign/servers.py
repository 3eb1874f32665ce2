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
#: One in so many servers tells that it shuts down, and one in so many shutdowns is ignored.
_TELLING, _IGNORING = 4, 25


class ServerPhase(StrEnum):
    """What a server does."""

    OFF = "off"
    STARTING = "starting"
    BOOTING = "booting"
    UP = "up"
    SHUTTING_DOWN = "shutting down"


@dataclass(frozen=True, slots=True)
class ServerTimes:
    """How long boots and shutdowns take, in seconds: from, to."""

    boot_s: tuple[float, float] = (90.0, 300.0)
    shutdown_s: tuple[float, float] = (5.0, 120.0)


@dataclass(slots=True)
class ServerHooks:
    """What others do when the power of a server changes."""

    went_off: Callable[["CampaignServer"], None] = lambda _server: None
    came_up: Callable[["CampaignServer"], None] = lambda _server: None


class CampaignServer:
    """One server, as `joulie_sim.bmc.service.SimulatedBmc` takes it.

    `by_service` is whether the power that it has now was requested at the BMC; `resets` are these requests with their
    times.
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
        self._loop = asyncio.get_running_loop()
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
    def boot_id(self) -> str:
        """Identifier of the boot that it is in, or was in."""
        return f"{self.name}-boot-{self.boots}"

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
