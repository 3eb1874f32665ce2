"""Power from an energy counter that wraps around.

Guarantees a figure only from two samples that can both be true. A sample that cannot is dropped and leaves no figure
behind, which is not the same as zero. Dropped are: samples less than 100 ms apart, a counter that stands still (a
package always draws something), a counter that went back where no range explains it, a time that went back, and a power
above three times the maximum. A sample so late that the counter may have wrapped around more than once is no measure
either.

Only a maximum reported by the hardware bounds a measurement. Without one a counter that went back may have wrapped or
been reset, which cannot be distinguished, and the bound is what no package can draw.

After a dropped sample the next one is measured from it, so that a counter that was reset, as by a reload of its driver,
costs one figure; only a sample that came too soon is forgotten altogether. The first move of a counter that stood still
is measured from as well: the time that it covers is unknown.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from joulie_core.plausible import Plausibility, judge
from joulie_core.wraps import difference, may_have_lapped

SHORTEST_S: Final = 0.1
#: More than any CPU package draws. The largest are specified for 500 W (data sheets of Intel Xeon 6980P and AMD EPYC
#: 9965) and for 760 W at the peak (data sheet of AMD Instinct MI300A); this is over twice the highest.
PACKAGE_BOUND_WATTS: Final = 2000.0
_UJ_PER_JOULE: Final = 1_000_000


class SampleResult(StrEnum):
    """Result of a sample."""

    #: The first one, or the first after a pause: there is nothing to measure from.
    FIRST = "first"
    GOOD = "good"
    TOO_SOON = "too_soon"
    TOO_LATE = "too_late"
    NEGATIVE = "negative"
    STOOD_STILL = "stood_still"
    TOO_HIGH = "too_high"


@dataclass(frozen=True, slots=True)
class EnergyCounter:
    """Properties of a counter; None where the hardware does not report them."""

    #: The largest value before it starts again at zero.
    range_uj: int | None = None
    #: The most that is drawn for long, as the hardware reports it; what is inferred from a model's name is no bound.
    max_watts: float | None = None


@dataclass(frozen=True, slots=True)
class MeterState:
    """Memory of one counter."""

    energy_uj: int | None = None
    at: float | None = None
    #: The newest figure; None where the newest sample gave none.
    power_watts: float | None = None
    #: The newest sample was the same as the one before it.
    still: bool = False


def step(state: MeterState, *, energy_uj: int, now: float, counter: EnergyCounter) -> tuple[MeterState, SampleResult]:
    """Take in a sample of the counter at `now`, in seconds on a monotonic clock."""
    if state.energy_uj is None or state.at is None:
        return MeterState(energy_uj, now), SampleResult.FIRST
    sampled, power_watts = _judge(state.energy_uj, energy_uj, now - state.at, counter)
    if sampled is SampleResult.TOO_SOON:
        return state, sampled
    if state.still and sampled is SampleResult.GOOD:
        sampled, power_watts = SampleResult.FIRST, None
    return MeterState(energy_uj, now, power_watts, still=sampled is SampleResult.STOOD_STILL), sampled


def _judge(
    before_uj: int, after_uj: int, elapsed_s: float, counter: EnergyCounter
) -> tuple[SampleResult, float | None]:
    if elapsed_s < SHORTEST_S:
        return SampleResult.NEGATIVE if elapsed_s < 0 else SampleResult.TOO_SOON, None
    if may_have_lapped(elapsed_s * (counter.max_watts or PACKAGE_BOUND_WATTS) * _UJ_PER_JOULE, counter.range_uj):
        return SampleResult.TOO_LATE, None
    used_uj = difference(before_uj, after_uj, counter.range_uj if counter.max_watts else None)
    if used_uj < 0:
        return SampleResult.NEGATIVE, None
    if used_uj == 0:
        return SampleResult.STOOD_STILL, None
    power_watts = used_uj / _UJ_PER_JOULE / elapsed_s
    if judge(power_watts, counter.max_watts, PACKAGE_BOUND_WATTS) is Plausibility.TOO_HIGH:
        return SampleResult.TOO_HIGH, None
    return SampleResult.GOOD, power_watts
