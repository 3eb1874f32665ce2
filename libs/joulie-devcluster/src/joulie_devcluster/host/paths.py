"""Directories of the current user (XDG base directories): the cache of binaries, and running clusters."""

import os
from pathlib import Path


def cache_home() -> Path:
    """Return the directory of obtained binaries: `$XDG_CACHE_HOME` or `~/.cache`, then `joulie/devcluster`."""
    return _base("XDG_CACHE_HOME", Path(".cache")) / "joulie" / "devcluster"


def state_home() -> Path:
    """Return the directory of clusters that the command line started.

    It is `$XDG_STATE_HOME` or `~/.local/state`, then `joulie/devcluster`.
    """
    return _base("XDG_STATE_HOME", Path(".local", "state")) / "joulie" / "devcluster"


def _base(variable: str, fallback: Path) -> Path:
    # The XDG specification: a relative value is invalid and counts as unset.
    value = os.environ.get(variable, "")
    return Path(value) if value and Path(value).is_absolute() else Path.home() / fallback
