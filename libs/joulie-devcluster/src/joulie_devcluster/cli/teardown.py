"""Removal of a cluster from a process other than its supervisor."""

import shutil
from pathlib import Path

from joulie_devcluster.control_plane.state import stop_processes
from joulie_devcluster.real_node import cleanup


def tear_down(directory: Path, *, grace_s: float = 30.0) -> bool:
    """Stop the cluster in `directory` and remove all of its files, and everything a real node left on the host.

    Args:
        directory: the cluster's directory.
        grace_s: time that its supervisor gets to stop everything in order.

    Returns:
        False if there is no cluster in `directory`.

    Raises:
        StateError: some processes cannot be stopped.
    """
    if not stop_processes(directory, grace_s=grace_s):
        return False
    cleanup.remove(directory)
    # The supervisor removes the directory itself, unless it was killed.
    if directory.exists():
        shutil.rmtree(directory)
    return True
