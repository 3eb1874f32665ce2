"""The program that this process is, for texts that say what to run."""

import sys
from pathlib import Path
from typing import Final

#: Those that bring the actuator's commands. The first one stands for a process that is none of them, such as a test.
PROGRAMS: Final = ("joulie-agent", "joulie-containers")


def command(name: str) -> str:
    """Return one of the actuator's commands as it is typed, such as `joulie-agent restore`."""
    started = Path(sys.argv[0])
    # The console script, or `__main__.py` of the package.
    names = (each.replace("_", "-") for each in (started.name, started.parent.name))
    return f"{next((each for each in names if each in PROGRAMS), PROGRAMS[0])} {name}"
