"""Units of energy."""

from typing import Final

JOULES_PER_KWH: Final = 3.6e6
