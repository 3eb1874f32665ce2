"""Published binaries of the pinned versions: where they are and their checksums, from `releases.toml`."""

import hashlib
import os
import platform
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from joulie_devcluster.binaries.modules import Binary, Module
from joulie_devcluster.errors import BinaryError

MIRROR_VARIABLE: Final = "JOULIE_RELEASE_MIRROR"
PINS: Path = Path(str(resources.files("joulie_devcluster.binaries"))) / "releases.toml"

#: Names that releases have for the machines that Python names differently.
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_DIGEST_CHARS: Final = 16


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file that a project publishes: a binary, or an archive that contains it.

    Attributes:
        url: its address at the project.
        sha256: its checksum, 64 hexadecimal digits.
        member: path of the binary in the archive; empty if the file is the binary.
    """

    url: str
    sha256: str
    member: str = ""

    @property
    def digest(self) -> str:
        """Digest of the pin, for the name of a directory in the cache."""
        return hashlib.sha256(f"{self.sha256}\0{self.member}".encode()).hexdigest()[:_DIGEST_CHARS]


def published_file(module: Module, binary: Binary) -> PublishedFile | None:
    """Return the published file of a binary for this platform, or None if none is pinned."""
    arch = _ARCHITECTURES.get(platform.machine())
    entry: dict[str, Any] | None = _read(PINS).get(module.name, {}).get(module.version)
    if entry is None or arch is None or sys.platform != "linux":
        return None
    checksums: str | dict[str, str] = entry["sha256"].get(arch, {})
    sha256 = checksums if isinstance(checksums, str) else checksums.get(binary)
    if sha256 is None:
        return None
    names = {"version": module.version, "arch": arch, "binary": binary.value}
    return PublishedFile(entry["url"].format(**names), sha256, entry.get("member", "").format(**names))


def downloaded_path(cache_directory: Path, module: Module, binary: Binary, file: PublishedFile) -> Path:
    """Return the path of a downloaded binary in the cache, whether or not it exists.

    Its directory is named after the checksum, and not after the sources as that of a built one.
    """
    return cache_directory / f"{module.name}-{module.version}-published-{file.digest}" / binary


def download_url(file: PublishedFile) -> str:
    """Return the address that a file is downloaded from: the project's, or that of `JOULIE_RELEASE_MIRROR`.

    A mirror has each file under the host and the path of the project's address.

    Raises:
        BinaryError: the variable is not an HTTPS address.
    """
    mirror = os.environ.get(MIRROR_VARIABLE, "")
    if not mirror:
        return file.url
    if not is_trusted(mirror):
        raise BinaryError(f"{MIRROR_VARIABLE} is {mirror!r}: set it to an https:// address, or unset it")
    parts = urlsplit(file.url)
    return f"{mirror.rstrip('/')}/{parts.netloc}{parts.path}"


def is_trusted(url: str) -> bool:
    """Return whether an address may be used: HTTPS, or HTTP on loopback."""
    parts = urlsplit(url)
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(url)))


def is_loopback(url: str) -> bool:
    """Return whether an address is on this machine."""
    return urlsplit(url).hostname in _LOOPBACK


@cache
def _read(path: Path) -> dict[str, dict[str, Any]]:
    return tomllib.loads(path.read_text())
