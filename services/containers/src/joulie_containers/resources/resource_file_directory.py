"""The directories that are mounted into containers, and the file of each: `EXPORTED/CONTAINER/resources.sh`.

Names of containers come from the runtime. Every step below the state directory is relative to an open directory and
follows no symbolic link, so that no name leads elsewhere. A new file takes the place of the old one by rename, so that
a reader sees one of the two as a whole. Everything here blocks.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

#: Below the state directory.
EXPORTED: Final = "exported"
RESOURCES_FILE: Final = "resources.sh"
_NEW_FILE: Final = "resources.sh.new"
#: Users of containers read it.
_FILE_MODE: Final = 0o644
_DIRECTORY_MODE: Final = 0o755
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Runtimes use up to 76 characters of these. No path, no option, no hidden file.
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


class InvalidContainerIdError(ValueError):
    """The id of a container is not a plain name."""


class ResourceFileDirectory:
    """The files of all containers of one node. For one thread at a time.

    Args:
        state_directory: must exist when something is written.
    """

    def __init__(self, state_directory: Path) -> None:
        self._state = state_directory

    def names(self) -> Sequence[str]:
        """Return what there is, also what another program has made; nothing where nothing was ever written.

        Raises:
            OSError: it cannot be read.
        """
        try:
            with self._root(create=False) as root, os.scandir(root) as entries:
                return [entry.name for entry in entries]
        except FileNotFoundError:
            return ()

    def write(self, container: str, content: bytes) -> None:
        """Write the file of a container, and its directory where it is missing.

        Raises:
            InvalidContainerIdError: nothing was written.
            OSError: an earlier file is still there; a directory that was missing may be there.
        """
        if not _PLAIN_NAME.fullmatch(container):
            raise InvalidContainerIdError(f"the container id {container[:128]!r} is not a plain name")
        with self._root(create=True) as root, _directory(container, root, create=True) as directory:
            with suppress(FileNotFoundError):
                os.unlink(_NEW_FILE, dir_fd=directory)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(_NEW_FILE, flags, _FILE_MODE, dir_fd=directory)
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, _FILE_MODE)  # whatever the umask
                file.write(content)
            os.rename(_NEW_FILE, RESOURCES_FILE, src_dir_fd=directory, dst_dir_fd=directory)

    def remove(self, name: str) -> None:
        """Remove one of `names`, a link itself and not what it names; one that is gone is no failure.

        Raises:
            OSError: it is still there.
        """
        try:
            with self._root(create=False) as root:
                _remove(name, root)
        except FileNotFoundError:
            return

    @contextmanager
    def _root(self, *, create: bool) -> Iterator[int]:
        state = os.open(self._state, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with _directory(EXPORTED, state, create=create) as root:
                yield root
        finally:
            os.close(state)


@contextmanager
def _directory(name: str, parent: int, *, create: bool) -> Iterator[int]:
    if create:
        with suppress(FileExistsError):
            os.mkdir(name, _DIRECTORY_MODE, dir_fd=parent)
    directory = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        if create:
            os.fchmod(directory, _DIRECTORY_MODE)
        yield directory
    finally:
        os.close(directory)


def _remove(name: str, root: int) -> None:
    try:
        os.unlink(name, dir_fd=root)
    except IsADirectoryError:
        with _directory(name, root, create=False) as directory:
            for file in (RESOURCES_FILE, _NEW_FILE):
                with suppress(FileNotFoundError):
                    os.unlink(file, dir_fd=directory)
        os.rmdir(name, dir_fd=root)
