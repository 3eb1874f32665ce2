"""Directories, attributes and symbolic links, with the rules of kernfs on opening and on what has been removed.

Source: Linux, fs/kernfs/file.c and dir.c; Documentation/filesystems/sysfs.rst.
"""

import errno
import os
import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

READ_ONLY: Final = 0o444
ROOT_ONLY: Final = 0o400
WRITABLE: Final = 0o644
_MOST_LINKS: Final = 40


@dataclass(slots=True, eq=False)
class Attribute:
    """One file: its content is made when it is read, and a write is an order that may be refused by OSError."""

    show: Callable[[], object]
    store: Callable[[str], None] | None = None
    mode: int = READ_ONLY


@dataclass(slots=True, eq=False)
class Link:
    """A symbolic link."""

    target: str


@dataclass(slots=True, eq=False)
class Directory:
    """Entries by name."""

    entries: "dict[str, Node]" = field(default_factory=dict)


Node = Attribute | Link | Directory


class Filesystem:
    """A tree of nodes. Paths are relative to its root, without a slash in front."""

    def __init__(self) -> None:
        self._root = Directory()

    def put(self, path: str, show: object, store: Callable[[str], None] | None = None, mode: int | None = None) -> None:
        """Make an attribute, and the directories on the way; a value that cannot be called is shown as it is."""
        made = show if callable(show) else lambda: show
        usual = READ_ONLY if store is None else WRITABLE
        self._parent(path).entries[posixpath.basename(path)] = Attribute(made, store, usual if mode is None else mode)

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link to another path of this tree, relative as those of sysfs are."""
        relative = posixpath.relpath("/" + target, "/" + posixpath.dirname(path))
        self._parent(path).entries[posixpath.basename(path)] = Link(relative)

    def remove(self, path: str) -> None:
        """Take away a file, a link, or a directory with all that is in it; nothing where there is none."""
        try:
            parent = self.find(posixpath.dirname(path))[1]
        except OSError:
            return
        if isinstance(parent, Directory):
            parent.entries.pop(posixpath.basename(path), None)

    def find(self, path: str, *, follow: bool = True) -> tuple[str, Node]:
        """Return the real path and what is there; OSError as path resolution in the kernel gives it."""
        parts = [part for part in path.split("/") if part not in {"", "."}][::-1]
        trail: list[tuple[str, Directory]] = [("", self._root)]
        links = 0
        while parts:
            name = parts.pop()
            here, directory = trail[-1]
            if name == "..":
                trail = trail[:-1] or trail
                continue
            node = directory.entries.get(name)
            real = f"{here}/{name}" if here else name
            if node is None:
                raise _error(errno.ENOENT, path)
            if isinstance(node, Link) and not parts and not follow:
                return real, node
            if isinstance(node, Link):
                links += 1
                if links > _MOST_LINKS:
                    raise _error(errno.ELOOP, path)
                parts += [part for part in node.target.split("/") if part not in {"", "."}][::-1]
            elif isinstance(node, Directory):
                trail.append((real, node))
            elif parts:
                raise _error(errno.ENOTDIR, path)
            else:
                return real, node
        return trail[-1]

    def real(self, path: str) -> str:
        """Resolve links as far as the path leads anywhere."""
        rest: list[str] = []
        while path:
            try:
                found = self.find(path)[0]
            except OSError:
                path, _, name = path.rpartition("/")
                rest.append(name)
            else:
                return "/".join([found, *rest[::-1]])
        return "/".join(rest[::-1])

    def entries(self, path: str) -> list[str]:
        """Return the names in a directory."""
        node = self.find(path)[1]
        if not isinstance(node, Directory):
            raise _error(errno.ENOTDIR, path)
        return list(node.entries)

    def open(self, path: str, flags: int) -> tuple[str, Attribute]:
        """Check an open as kernfs does: root needs the bits too, and directories cannot be written."""
        real, node = self.find(path)
        wants = flags & os.O_ACCMODE
        if not isinstance(node, Attribute):
            raise _error(errno.EISDIR, path)
        if wants != os.O_WRONLY and not node.mode & ROOT_ONLY:
            raise _error(errno.EACCES, path)
        if wants != os.O_RDONLY and (not node.mode & 0o222 or node.store is None):
            raise _error(errno.EACCES, path)
        return real, node

    def check(self, path: str, node: Attribute) -> None:
        """Fail where an opened attribute has been removed since, or replaced by another of the same name."""
        try:
            there: Node | None = self.find(path)[1]
        except OSError:
            there = None
        if there is not node:
            raise _error(errno.ENODEV, path)

    def _parent(self, path: str) -> Directory:
        directory = self._root
        for name in posixpath.dirname(path).split("/"):
            node = directory.entries.setdefault(name, Directory())
            assert isinstance(node, Directory), path
            directory = node
        return directory


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
