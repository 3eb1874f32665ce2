"""Units of power, energy and frequency."""

from math import ceil
from typing import Final

JOULES_PER_KWH: Final = 3.6e6
MW_PER_WATT: Final = 1000
KHZ_PER_MHZ: Final = 1000


def milliwatts_up(watts: float) -> int:
    """Return watts as whole milliwatts, rounded up."""
    return ceil(watts * MW_PER_WATT)
