"""Removal of what a real node leaves on the host outside of its cluster's directory, also after the cluster was killed.

These are its control groups, and empty directories that its kubelet requires and the host did not have. The directories
are recorded in the cluster's directory before they are created. One that another real node may be using is left.
"""

from collections.abc import Iterable
from pathlib import Path

from joulie_devcluster.real_node import cgroups


def make_mount_points(directory: Path, paths: Iterable[Path]) -> None:
    """Record and create the directories in `paths` that do not exist, for the real node of a cluster.

    Args:
        directory: the cluster's directory.
        paths: directories on the host.
    """
    missing = [path for path in paths if not path.exists()]
    record = _record_path(directory)
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text("".join(f"{path}\n" for path in missing))
    for path in missing:
        path.mkdir(parents=True)


def remove(directory: Path) -> None:
    """Remove what the real node of the cluster in `directory` has left. Do nothing if the cluster had none.

    Raises:
        StateError: processes of the node are still alive.
    """
    cgroups.remove(cgroups.group_name(directory))
    record = _record_path(directory)
    if not record.exists():
        return
    for path in map(Path, record.read_text().splitlines()):
        # Kept if it is in use: it contains files, or another real node may have a mount on it.
        if path.is_dir() and not any(path.iterdir()) and not cgroups.exist():
            path.rmdir()
    record.unlink()


def _record_path(directory: Path) -> Path:
    return directory / "real-node" / "mount-points"
