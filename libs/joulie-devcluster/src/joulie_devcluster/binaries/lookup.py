"""Find the control plane's binaries, or have them built.

Looked for in this order: a given directory or `KUBEBUILDER_ASSETS`, PATH, the user's cache, a build.

A binary counts only if its release (major and minor version) is the one pinned under `go_modules/`: flags and version
skew differ between releases. A directory that was named on purpose and holds another release is an error; on PATH it is
passed over. What is in the cache was built from exactly the pinned files and is not asked.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from joulie_devcluster.binaries.build import build, cached_path
from joulie_devcluster.binaries.modules import Binary, module_of
from joulie_devcluster.errors import BinaryError
from joulie_devcluster.host.paths import cache_home
from joulie_devcluster.host.progress import Reporter, SilentReporter

CONTROL_PLANE = (Binary.ETCD, Binary.APISERVER, Binary.SCHEDULER, Binary.KWOK, Binary.CONTROLLER_MANAGER)
REAL_NODE = (Binary.KUBELET, Binary.CONTAINERD, Binary.RUNC_SHIM, Binary.CTR)

_ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
_VERSION_TIMEOUT_S = 20
#: How a binary is asked for its version, where that is not by `--version`.
_VERSION_QUESTION: Mapping[Binary, Sequence[str]] = {Binary.HELM: ("version", "--short"), Binary.RUNC_SHIM: ("-v",)}


class Source(StrEnum):
    """Where a binary was found."""

    DIRECTORY = "given directory"
    PATH = "PATH"
    CACHE = "cache"


@dataclass(frozen=True, slots=True)
class Found:
    """A usable binary; `version` as it reports it, or the pinned one where it comes from the cache."""

    binary: Binary
    path: Path
    version: str
    source: Source


def find(binary: Binary, *, directory: Path | None = None, cache: Path | None = None) -> Found | None:
    """A usable binary, or None where one has to be built.

    Args:
        binary: which one.
        directory: looked into first; None is `KUBEBUILDER_ASSETS`, if set.
        cache: the cache; None is the user's.

    Raises:
        BinaryError: the given directory does not exist or holds another release of the binary.
    """
    module = module_of(binary)
    given = directory if directory is not None else _assets_directory()
    if given is not None:
        if not given.is_dir():
            raise BinaryError(f"{given} is no directory: correct it (or {_ASSETS_VARIABLE}), or leave it out")
        candidate = given / binary
        if candidate.exists():
            version = ask_version(candidate, binary)
            if not _fits(version, module.release):
                raise BinaryError(
                    f"{candidate} is {version or 'of an unknown version'}, this cluster needs {module.version}:"
                    f" name another directory, or leave it (or {_ASSETS_VARIABLE}) out"
                )
            return Found(binary, candidate.resolve(), version, Source.DIRECTORY)
    on_path = shutil.which(binary)
    if on_path is not None:
        version = ask_version(Path(on_path), binary)
        if _fits(version, module.release):
            return Found(binary, Path(on_path).resolve(), version, Source.PATH)
    cached = cached_path(cache if cache is not None else cache_home(), binary)
    return Found(binary, cached, module.version, Source.CACHE) if cached.exists() else None


def ensure(
    binaries: Sequence[Binary] = CONTROL_PLANE,
    *,
    directory: Path | None = None,
    cache: Path | None = None,
    reporter: Reporter | None = None,
) -> Mapping[Binary, Path]:
    """The paths of all asked binaries; builds what is found nowhere, which takes minutes. Blocks.

    Raises:
        BinaryError: a binary is neither found nor can be built; the message names the way out.
    """
    cache = cache if cache is not None else cache_home()
    paths: dict[Binary, Path] = {}
    missing: list[Binary] = []
    for binary in binaries:
        found = find(binary, directory=directory, cache=cache)
        if found is None:
            missing.append(binary)
        else:
            paths[binary] = found.path
    if missing:
        build(cache, missing, reporter if reporter is not None else SilentReporter())
        paths.update({binary: cached_path(cache, binary) for binary in missing})
    return paths


def ask_version(path: Path, binary: Binary) -> str:
    """The version that the binary at `path` reports, like "v1.34.4"; empty where it does not."""
    question = _VERSION_QUESTION.get(binary, ("--version",))
    try:
        reply = subprocess.run(  # noqa: S603 - a path the user named or has on PATH
            [path, *question], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    # They say: Kubernetes v1.34.4; etcd Version: 3.6.13; kwok version v0.7.0 go1.26.8 (linux/amd64).
    match = re.search(r"v?(\d+\.\d+\.\d+\S*)", reply.stdout)
    return f"v{match[1]}" if match else ""


def _fits(version: str, release: tuple[int, int]) -> bool:
    match = re.match(r"v(\d+)\.(\d+)\.", version)
    return match is not None and (int(match[1]), int(match[2])) == release


def _assets_directory() -> Path | None:
    value = os.environ.get(_ASSETS_VARIABLE, "")
    return Path(value) if value else None
