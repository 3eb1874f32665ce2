"""Power of a whole server over its CPU load, and the part of it that its CPU packages draw.

Three bases, the first that is possible: the median of published results for the very CPU model and number of sockets;
a shape by group of CPUs between a known idle power and a known maximum; multiples of the TDP by the same groups. Groups
are generations of the inventory, then vendors. Watts are at the wall and do not contain GPUs.

The rest of a server (board, memory, disks, the least speed of its fans) is a constant and a figure per GiB of memory.
What is left at the wall is what the packages draw through the power supply. A package does not sustain more than its
TDP: what a published result is above that, such as fans at full speed, counts as rest. Source: docs/models.md.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

from joulie_core.hardware.inventory import CpuSpec
from joulie_core.hardware.power_curve import CapResponse, interpolate

#: Output over input of a server's power supplies from half to full load: 80 PLUS Platinum and Titanium at 230 V ask for
#: 0.91 to 0.96 there (clearesult.com/80plus/program-details).
SUPPLY_EFFICIENCY: Final = 0.94
#: The group of a CPU of which neither generation nor vendor is in the data.
ANY_CPU: Final = "any"
#: A single package up to this TDP is an entry server's, for a CPU that the inventory does not list.
ENTRY_TDP_WATTS: Final = 100.0
#: What packages draw at least, of the server's idle power: the rest is an average and may be more than a server has.
_LEAST_PACKAGES_SHARE: Final = 0.2


class ServerBasis(StrEnum):
    """Basis that the power of a server was computed from."""

    MEASURED = "measured"
    SHAPE = "shape"
    TDP = "tdp"


@dataclass(frozen=True, slots=True)
class ServerPower:
    """Power of one server at CPU loads 0, 10, ... 100 %: eleven points each, rising with the load."""

    wall_watts: tuple[float, ...]
    #: Of all packages together, part of the above before the losses of the power supply.
    packages_watts: tuple[float, ...]
    basis: ServerBasis

    def wall_at(self, utilization: float) -> float:
        """Return the watts at the wall at a load in [0, 1] (clamped)."""
        return interpolate(self.wall_watts, utilization)

    def packages_at(self, utilization: float) -> float:
        """Return the natural power of all packages at a load in [0, 1] (clamped)."""
        return interpolate(self.packages_watts, utilization)

    def rest_at(self, utilization: float) -> float:
        """Return the watts at the wall that are not the packages' and their share of the losses."""
        return self.wall_at(utilization) - self.packages_at(utilization) / SUPPLY_EFFICIENCY

    @property
    def idle_packages_watts(self) -> float:
        """Power of all packages without load."""
        return self.packages_watts[0]

    def wall_with(self, utilization: float, packages_watts: float) -> float:
        """Return the watts at the wall when limits hold the packages at `packages_watts` at that load."""
        return self.wall_at(utilization) - (self.packages_at(utilization) - packages_watts) / SUPPLY_EFFICIENCY

    def knee_at(self, utilization: float, response: CapResponse) -> float:
        """Return the power of all packages at which the server's energy per unit of work is least at that load."""
        rest_watts = self.rest_at(utilization) * SUPPLY_EFFICIENCY
        return response.knee_watts(self.packages_at(utilization), self.idle_packages_watts, rest_watts)


@dataclass(frozen=True, slots=True)
class MeasuredServer:
    """Published results of one CPU model and number of sockets."""

    #: Eleven points, at loads 0, 10, ... 100 %.
    wall_watts: tuple[float, ...]
    memory_gib: float
    #: Per package.
    tdp_watts: float


@dataclass(frozen=True, slots=True)
class ServerModels:
    """The constants of this module; eleven points per tuple, at loads 0, 10, ... 100 %."""

    #: The rest of a server at the wall: a constant, and watts per GiB of memory.
    rest_watts: float
    rest_watts_per_gib: float
    #: Group -> GiB per watt of TDP, for a server whose memory is not known.
    memory_gib_per_tdp_watt: Mapping[str, float]
    #: Group -> position between idle (0) and maximum (1).
    shapes: Mapping[str, tuple[float, ...]]
    #: Group -> watts at the wall, less the rest of the server, over the TDP of all packages.
    tdp_shares: Mapping[str, tuple[float, ...]]
    #: Key of the CPU model and number of sockets -> what was measured.
    measured: Mapping[tuple[str, int], MeasuredServer]

    @staticmethod
    @lru_cache(maxsize=1)
    def load() -> "ServerModels":
        """Return the constants that ship with the package."""
        text = files("joulie_core.hardware").joinpath("power_models.toml").read_text(encoding="utf-8")
        return ServerModels.read(tomllib.loads(text)["server"])

    @staticmethod
    def read(data: Mapping[str, Any]) -> "ServerModels":
        """Return the constants of the table `server` of `power_models.toml`."""
        return ServerModels(
            rest_watts=data["rest_watts"],
            rest_watts_per_gib=data["rest_watts_per_gib"],
            memory_gib_per_tdp_watt={name: entry["memory_gib_per_tdp_watt"] for name, entry in data["group"].items()},
            shapes={name: tuple(entry["shape"]) for name, entry in data["group"].items()},
            tdp_shares={name: tuple(entry["tdp_shares"]) for name, entry in data["group"].items()},
            measured={
                (entry["cpu"], entry["sockets"]): MeasuredServer(
                    tuple(entry["watts"]), entry["memory_gib"], entry["tdp_watts"]
                )
                for entry in data["measured"]
            },
        )

    def group(self, cpu: CpuSpec, sockets: int) -> str:
        """Return the group that stands for a CPU: the narrowest of which there is data."""
        return next((name for name in groups(cpu, sockets) if name in self.shapes), ANY_CPU)

    def rest(self, memory_gib: float) -> float:
        """Return the watts at the wall of a server with this memory that are not its packages'."""
        return self.rest_watts + self.rest_watts_per_gib * memory_gib


def groups(cpu: CpuSpec, sockets: int) -> tuple[str, ...]:
    """Return the groups that a CPU belongs to, the narrowest first."""
    if not cpu.generic:
        return (cpu.curve_name, cpu.vendor, ANY_CPU)
    entry = (f"{cpu.vendor} entry",) if sockets == 1 and cpu.max_watts <= ENTRY_TDP_WATTS else ()
    return (*entry, cpu.vendor, ANY_CPU)


def server_power(
    cpu: CpuSpec,
    sockets: int,
    memory_gib: float | None = None,
    *,
    idle_watts: float | None = None,
    max_watts: float | None = None,
    models: ServerModels | None = None,
) -> ServerPower:
    """Return the power of a server.

    Args:
        cpu: its CPU model; `max_watts` of it is taken as the TDP.
        sockets: number of packages, at least 1.
        memory_gib: its memory; None for what servers of that TDP typically have.
        idle_watts: watts at the wall without load, with `max_watts` at full load: both, where they were measured.
        max_watts: see `idle_watts`.
        models: constants, None for those that ship with the package.

    Raises:
        ValueError: `idle_watts` and `max_watts` are not both given, or not 0 < idle < max.
    """
    models = ServerModels.load() if models is None else models
    tdp_watts = cpu.max_watts * sockets
    group = models.group(cpu, sockets)
    memory_gib = models.memory_gib_per_tdp_watt[group] * tdp_watts if memory_gib is None else memory_gib
    rest_watts = models.rest(memory_gib)
    measured = models.measured.get((cpu.key, sockets))
    if idle_watts is not None or max_watts is not None:
        if idle_watts is None or max_watts is None or not 0 < idle_watts < max_watts:
            raise ValueError(f"idle and maximum must both be given, idle below: {idle_watts} W, {max_watts} W")
        wall = tuple(idle_watts + share * (max_watts - idle_watts) for share in models.shapes[group])
        basis = ServerBasis.SHAPE
    elif measured is not None and measured.tdp_watts == cpu.max_watts:
        added_watts = models.rest_watts_per_gib * (memory_gib - measured.memory_gib)
        # A measured server with more memory than its idle power allows for must not end at nothing.
        added_watts = max(added_watts, -(1 - _LEAST_PACKAGES_SHARE) * measured.wall_watts[0])
        wall, basis = tuple(watts + added_watts for watts in measured.wall_watts), ServerBasis.MEASURED
    else:
        wall = tuple(rest_watts + share * tdp_watts for share in models.tdp_shares[group])
        basis = ServerBasis.TDP
    return ServerPower(wall, _packages(wall, rest_watts, tdp_watts), basis)


def _packages(wall: tuple[float, ...], rest_watts: float, tdp_watts: float) -> tuple[float, ...]:
    rest_watts = min(rest_watts, wall[0] * (1 - _LEAST_PACKAGES_SHARE))
    return tuple(min(tdp_watts, SUPPLY_EFFICIENCY * (watts - rest_watts)) for watts in wall)
