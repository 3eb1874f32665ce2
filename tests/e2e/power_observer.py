"""An observer of the simulated hardware: caps, power and energy of groups of nodes, and nothing that Joulie says."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

_OBSERVED_EVERY_S = 0.05
_TIMEOUT = aiohttp.ClientTimeout(total=30.0)

Groups = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class PowerSample:
    """One reading of all nodes, each sum by the name of the group."""

    #: By the clock of the event loop, when the answer was there.
    at_s: float
    #: By the clock of the simulator, which the joules belong to.
    simulated_s: float
    caps_w: Mapping[str, float]
    drawn_w: Mapping[str, float]
    joules: Mapping[str, float]


class PowerObserver:
    """The samples of some groups of nodes, and the largest sum of the caps of each since it was last forgotten."""

    def __init__(self, sim_url: str, groups: Groups) -> None:
        self._url = f"{sim_url}/state"
        self._groups = groups
        self.samples: list[PowerSample] = []
        self.sums: Mapping[str, float] = {}
        self.largest: dict[str, float] = {}

    @property
    def last(self) -> PowerSample:
        """The newest sample; AssertionError before the first."""
        assert self.samples, "nothing is observed yet"
        return self.samples[-1]

    async def run(self) -> None:
        """Observe until cancelled."""
        loop = asyncio.get_running_loop()
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
            while True:
                async with session.get(self._url) as answer:
                    state = await answer.json()
                self._take(state, loop.time())
                await asyncio.sleep(_OBSERVED_EVERY_S)

    def forget_of(self, *groups: str) -> None:
        """Begin a new period for groups."""
        self.largest |= {name: self.sums[name] for name in groups}

    def means_w(self, group: str, from_s: float, to_s: float, length_s: float) -> list[float]:
        """Return the mean power of each interval between two times of the loop's clock, by the energy counters.

        Intervals are as long as samples allow, `length_s` at least.
        """
        found, start = [], None
        for each in self.samples:
            if not from_s <= each.at_s <= to_s:
                continue
            if start is None:
                start = each
            elif each.simulated_s - start.simulated_s >= length_s:
                joules = each.joules[group] - start.joules[group]
                found.append(joules / (each.simulated_s - start.simulated_s))
                start = each
        return found

    def _take(self, state: Mapping[str, Any], now_s: float) -> None:
        nodes = state["nodes"]

        def sums(field: str) -> dict[str, float]:
            return {group: sum(nodes[name][field] for name in names) for group, names in self._groups.items()}

        self.sums = sums("capWatts")
        self.samples.append(
            PowerSample(now_s, state["simulatedSeconds"], self.sums, sums("watts"), sums("energyJoules"))
        )
        for name, watts in self.sums.items():
            self.largest[name] = max(self.largest.get(name, 0.0), watts)


@contextlib.asynccontextmanager
async def observing(sim_url: str, groups: Groups) -> AsyncIterator[PowerObserver]:
    """Observe while the block runs; AssertionError where the observer ended before it."""
    observer = PowerObserver(sim_url, groups)
    task = asyncio.create_task(observer.run())
    try:
        yield observer
        assert not task.done(), "the observer has ended"
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
