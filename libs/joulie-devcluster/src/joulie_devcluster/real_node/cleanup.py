"""What a real node leaves on the machine outside its cluster's directory, and how it is removed, also after a kill.

That is its control groups, and empty directories where its kubelet wants some that the machine does not have. The
latter are noted in the cluster's directory before they are made; where several nodes share one, it may be left.
"""

from collections.abc import Iterable
from pathlib import Path

from joulie_devcluster.real_node import cgroups


def make_mount_points(directory: Path, paths: Iterable[Path]) -> None:
    """Make those directories that do not exist, for the real node of the cluster in `directory`."""
    missing = [path for path in paths if not path.exists()]
    note = _note(directory)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text("".join(f"{path}\n" for path in missing))
    for path in missing:
        path.mkdir(parents=True)


def remove(directory: Path) -> None:
    """Remove what the real node of the cluster in `directory` has left; nothing happens where it had none.

    Raises:
        StateError: processes of it are still alive.
    """
    cgroups.remove(cgroups.group_name(directory))
    note = _note(directory)
    if not note.exists():
        return
    for path in map(Path, note.read_text().splitlines()):
        # Somebody else may have come to use it; another real node has a mount on it, which would go with it.
        if path.is_dir() and not any(path.iterdir()) and not cgroups.exist():
            path.rmdir()
    note.unlink()


def _note(directory: Path) -> Path:
    return directory / "real-node" / "mount-points"
