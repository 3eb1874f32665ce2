"""The server behind a simulated BMC: power state, power and power limit. No I/O; the clock is an argument."""

from collections.abc import Callable

from joulie_sim.bmc.profiles import BmcProfile

#: Power of a server that is off: its BMC and the standby supply.
STANDBY_WATTS = 9.0


class SimulatedServer:
    """One server.

    `demand_watts` is what it draws without a limit; `limit_watts` None: no limit. Both may be changed at any time.
    `standby_watts` is what it draws while it is off, and `boot_watts` until it is on.
    """

    def __init__(
        self,
        profile: BmcProfile,
        *,
        clock: Callable[[], float],
        demand_watts: float = 344.0,
        standby_watts: float = STANDBY_WATTS,
        boot_watts: float = STANDBY_WATTS,
        on: bool = True,
    ) -> None:
        self.demand_watts = demand_watts
        self._off_watts = {"Off": standby_watts, "PoweringOn": boot_watts}
        self.limit_watts: float | None = None
        #: Reset types in the sequence of the requests.
        self.resets: list[str] = []
        self._profile = profile
        self._clock = clock
        self._on = on
        #: State that is being entered, and when it is.
        self._next: tuple[bool, float] | None = None
        self._reading: tuple[float, float] | None = None

    @property
    def power_state(self) -> str:
        """`On`, `Off`, `PoweringOn` or `PoweringOff`."""
        self._settle()
        if self._next is None:
            return "On" if self._on else "Off"
        return "PoweringOn" if self._next[0] else "PoweringOff"

    @property
    def watts(self) -> float:
        """Power at this moment."""
        state = self.power_state
        if state in self._off_watts:
            return self._off_watts[state]
        return self.demand_watts if self.limit_watts is None else min(self.demand_watts, self.limit_watts)

    def reading(self) -> float:
        """Return the power reading, which is as old as the profile has it."""
        now = self._clock()
        if self._reading is None or now - self._reading[0] >= self._profile.reading_interval_s:
            self._reading = (now, self.watts)
        return self._reading[1]

    def reset(self, kind: str) -> None:
        """Carry out a reset type of the profile."""
        self.resets.append(kind)
        self._settle()
        profile = self._profile
        effects = {
            "On": (True, profile.power_on_s),
            "ForceOn": (True, profile.power_on_s),
            "PushPowerButton": (not self._on, profile.graceful_off_s if self._on else profile.power_on_s),
            "GracefulShutdown": (False, profile.graceful_off_s),
            "ForceOff": (False, profile.forced_off_s),
        }
        if kind in effects:
            on, after_s = effects[kind]
            self._enter(on=on, after_s=after_s)

    def _enter(self, *, on: bool, after_s: float | None) -> None:
        if after_s is not None and on != self._on:
            self._next = (on, self._clock() + after_s)

    def _settle(self) -> None:
        if self._next is not None and self._clock() >= self._next[1]:
            self._on, self._next = self._next[0], None
