"""The out-of-band service: reaches the BMCs of nodes. See docs/decisions/0025-out-of-band-service.md."""

from importlib.metadata import version
from typing import Final

VERSION: Final = version("joulie-outofband")
