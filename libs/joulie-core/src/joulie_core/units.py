"""Units of power and energy."""

from typing import Final

JOULES_PER_KWH: Final = 3.6e6
MW_PER_WATT: Final = 1000
