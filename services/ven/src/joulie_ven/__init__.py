"""An OpenADR 3.1 VEN: reads the events of a VTN and writes PowerEvents. See docs/decisions/0058-openadr-ven.md."""

from importlib.metadata import version
from typing import Final

VERSION: Final = version("joulie-ven")
