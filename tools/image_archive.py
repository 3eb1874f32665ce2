"""The files of an image, from an archive as `docker save` writes it: its layers, one over the other."""

import json
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

#: Names in a layer: of a file that is gone, and of the mark that what the layers below have of a directory is gone.
_GONE: Final = ".wh."
_ALL_GONE: Final = ".wh..wh..opq"
SET_ID_BITS: Final = 0o6000
SHELLS: Final = frozenset(
    {"sh", "bash", "rbash", "dash", "ash", "busybox", "zsh", "ksh", "mksh", "csh", "tcsh", "fish"}
)


@dataclass(frozen=True, slots=True)
class ImageFile:
    """A file or link of an image."""

    mode: int
    is_regular: bool
    #: What it contains; None where that was not wanted, and of links.
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """An image; files by their absolute path, without directories."""

    name: str
    config: Mapping[str, Any]
    files: Mapping[str, ImageFile]


def read_image(archive: Path, wanted: Callable[[str], bool] = lambda _path: False) -> Image:
    """Read an archive with one image.

    Args:
        archive: of `docker save`, layers compressed or not.
        wanted: whether the content of a path is needed.

    Raises:
        KeyError: a part of it is missing.
        OSError: it cannot be read.
        tarfile.TarError: it is not an archive.
    """
    with tarfile.open(archive) as opened:
        (manifest,) = json.loads(read_part(opened, "manifest.json"))
        config = json.loads(read_part(opened, manifest["Config"]))
        files: dict[str, ImageFile] = {}
        for name in manifest["Layers"]:
            with tarfile.open(fileobj=opened.extractfile(name)) as layer:
                _lay_over(files, layer, wanted)
    return Image(manifest["RepoTags"][0], config, files)


def set_id_files(image: Image) -> list[str]:
    """Return the files that run with the rights of their owner or group."""
    return sorted(path for path, file in image.files.items() if file.is_regular and file.mode & SET_ID_BITS)


def shells(image: Image) -> list[str]:
    """Return the shells, and links that are named like one."""
    return sorted(
        path for path, file in image.files.items() if PurePosixPath(path).name in SHELLS and file.mode & 0o111
    )


def read_part(archive: tarfile.TarFile, name: str) -> bytes:
    """Return a file of an archive.

    Raises:
        KeyError: there is no such file.
    """
    part = archive.extractfile(name)
    if part is None:
        raise KeyError(name)
    return part.read()


def _lay_over(files: dict[str, ImageFile], layer: tarfile.TarFile, wanted: Callable[[str], bool]) -> None:
    members = [(PurePosixPath("/") / member.name, member) for member in layer]
    for path, _ in members:
        if path.name == _ALL_GONE:
            _drop(files, path.parent)
        elif path.name.startswith(_GONE):
            _drop(files, path.with_name(path.name.removeprefix(_GONE)))
    for path, member in members:
        if not (member.isdir() or path.name.startswith(_GONE)):
            content = layer.extractfile(member) if member.isreg() and wanted(str(path)) else None
            files[str(path)] = ImageFile(member.mode, member.isreg() or member.islnk(), content and content.read())


def _drop(files: dict[str, ImageFile], path: PurePosixPath) -> None:
    files.pop(str(path), None)
    below = f"{path}/"
    for each in [each for each in files if each.startswith(below)]:
        del files[each]
