"""Quantiles of any number of values."""

from collections.abc import Iterable


def quantile(values: Iterable[float], share: float) -> float:
    """Return the value that a share in [0, 1] of at least one value does not exceed; linear between the values."""
    ranked = sorted(values)
    position = share * (len(ranked) - 1)
    low = ranked[int(position)]
    high = ranked[min(int(position) + 1, len(ranked) - 1)]
    return low + (high - low) * (position - int(position))
