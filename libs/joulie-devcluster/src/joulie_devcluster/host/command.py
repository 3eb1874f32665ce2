"""Commands that are run to their end for their output."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

from joulie_devcluster.errors import EngineError

_ERROR_LINES: Final = 40


def run(*command: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Run a command, of root's directories too, and return its standard output.

    Raises:
        EngineError: it failed; the message contains the end of its output.
    """
    path = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin{os.pathsep}/sbin"
    return output_of(command, command[0], cwd=cwd, env={**(os.environ if env is None else env), "PATH": path})


def output_of(
    command: tuple[str, ...],
    name: str,
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    stdin: IO[bytes] | int | None = subprocess.DEVNULL,
) -> str:
    """Run a command with these variables alone, and return its standard output; `name` is for the error.

    Raises:
        EngineError: it failed; the message contains the end of its output.
    """
    done = subprocess.run(  # noqa: S603 - fixed commands
        command, cwd=cwd, env=env, stdin=stdin, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-_ERROR_LINES:])
        raise EngineError(f"{name} failed with status {done.returncode}:\n{tail}")
    return done.stdout
