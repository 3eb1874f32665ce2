"""How much power a device draws under load, and how much work it does under a power cap.

Both are shapes relative to the device's maximum, so one curve serves every model of a generation. The constants and
their sources are in the inventory. Guarantees monotone functions with values in [0, 1] (times the maximum); does not
model transients, temperature or the difference between kinds of work.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CapResponse:
    """Throughput of a device that a cap holds below the power it would draw.

    For a cap of share c of the maximum: `((c - static_share) / (1 - static_share)) ** exponent`. The static share is
    power that does no work; with an exponent below one the last watts add the least speed.
    """

    static_share: float
    exponent: float
    #: Share of the maximum below which nothing was measured; from there the law goes straight to zero at zero watts.
    lowest: float
    source: str

    def throughput(self, share: float) -> float:
        """Return the throughput at a power of `share` of the maximum, relative to that at the maximum, in [0, 1]."""
        if share >= 1:
            return 1.0
        measured = max(share, self.lowest)
        value: float = ((measured - self.static_share) / (1 - self.static_share)) ** self.exponent
        return value * max(share, 0.0) / measured


@dataclass(frozen=True, slots=True)
class PowerCurve:
    """Power over load, and throughput over cap, of one generation of devices."""

    #: Power over power at full load, at equally spaced loads from 0 (idle) to 1; rising, the last is 1.
    shares: tuple[float, ...]
    response: CapResponse
    source: str

    def share(self, utilization: float) -> float:
        """Return the power at a load in [0, 1] (clamped) over the power at full load; linear between the points."""
        position = min(max(utilization, 0.0), 1.0) * (len(self.shares) - 1)
        index = min(int(position), len(self.shares) - 2)
        low, high = self.shares[index], self.shares[index + 1]
        return low + (high - low) * (position - index)

    def watts(self, utilization: float, max_watts: float) -> float:
        """Return the power in watts at a load in [0, 1] of a device that draws `max_watts` at full load."""
        return self.share(utilization) * max_watts

    def relative_performance(self, cap_fraction: float, demand_fraction: float = 1.0) -> float:
        """Return the speed under a cap over the speed without one, in [0, 1].

        Args:
            cap_fraction: the cap over the device's maximum power.
            demand_fraction: the power that the work would draw without a cap over that maximum. A cap above it costs
                nothing.
        """
        if cap_fraction >= demand_fraction:
            return 1.0
        return self.response.throughput(cap_fraction) / self.response.throughput(demand_fraction)
