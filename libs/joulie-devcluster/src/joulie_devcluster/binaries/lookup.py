"""Lookup of executables: given directory or `KUBEBUILDER_ASSETS`, PATH, the user's cache, a download, a build.

A binary is accepted only if its release (major and minor version) is the one pinned by its module, because flags and
version skew differ between releases. Another release is an error in a given directory and is ignored on PATH.
Binaries in the cache were built from pinned sources or have a pinned checksum, so their version is not queried. The
caller, or the variable `JOULIE_KUBERNETES`, chooses among the minor releases of Kubernetes.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from joulie_devcluster.binaries.modules import DEFAULT_KUBERNETES, Binary, kubernetes_minors, module_of
from joulie_devcluster.binaries.obtain import find_cached, obtain
from joulie_devcluster.errors import BinaryError
from joulie_devcluster.host.paths import cache_home
from joulie_devcluster.host.progress import Reporter, SilentReporter

CONTROL_PLANE = (Binary.ETCD, Binary.APISERVER, Binary.SCHEDULER, Binary.KWOK, Binary.CONTROLLER_MANAGER)
REAL_NODE = (Binary.KUBELET, Binary.CONTAINERD, Binary.RUNC_SHIM, Binary.CTR)
NRI_RUNTIMES = (Binary.NRI_RUNTIME_0_8, Binary.NRI_RUNTIME_0_11, Binary.NRI_RUNTIME_0_12)
#: kind, and programs that check what it writes into nodes.
KIND_FILES = (Binary.KIND, Binary.KUBEADM, Binary.SCHEDULER, Binary.CONTAINERD)

#: Network plugins of a node of kind.
CNI_PLUGINS = (Binary.CNI_HOST_LOCAL, Binary.CNI_LOOPBACK, Binary.CNI_PTP, Binary.CNI_PORTMAP)
#: What a node image of kind contains, and kind.
KIND_NODE = (
    Binary.KIND,
    Binary.ETCD,
    Binary.APISERVER,
    Binary.SCHEDULER,
    Binary.CONTROLLER_MANAGER,
    Binary.KUBEADM,
    Binary.KUBE_PROXY,
    Binary.KUBECTL,
    *REAL_NODE,
    *CNI_PLUGINS,
)

KUBERNETES_VARIABLE = "JOULIE_KUBERNETES"
_ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
_VERSION_TIMEOUT_S = 20
#: Arguments that print the version, for binaries without `--version`.
_VERSION_ARGUMENTS: Mapping[Binary, Sequence[str]] = {
    Binary.HELM: ("version", "--short"),
    Binary.CYCLONUS: ("version",),
    Binary.KUBEADM: ("version", "--output", "short"),
    Binary.KUBECTL: ("version", "--client"),
    Binary.RUNC_SHIM: ("-v",),
}


class BinarySource(StrEnum):
    """Place where a binary was found."""

    DIRECTORY = "given directory"
    PATH = "PATH"
    CACHE = "cache"


@dataclass(frozen=True, slots=True)
class LocatedBinary:
    """A usable binary.

    Attributes:
        binary: which one.
        path: the executable.
        version: the version that it reports, like "v1.37.1"; for a cached one, the pinned version.
        source: where it was found.
    """

    binary: Binary
    path: Path
    version: str
    source: BinarySource


def selected_kubernetes(minor: str | None = None) -> str:
    """Return the minor release of Kubernetes to run, like "1.37".

    Args:
        minor: the caller's choice; None is `JOULIE_KUBERNETES`, or the default without it.

    Raises:
        BinaryError: no such release is pinned.
    """
    chosen = minor or os.environ.get(KUBERNETES_VARIABLE) or DEFAULT_KUBERNETES
    if chosen not in kubernetes_minors():
        known = ", ".join(kubernetes_minors())
        raise BinaryError(
            f"Kubernetes {chosen} is not available (--kubernetes, {KUBERNETES_VARIABLE}): use one of {known}"
        )
    return chosen


def find(
    binary: Binary,
    *,
    directory: Path | None = None,
    cache: Path | None = None,
    kubernetes: str | None = None,
    from_source: bool = False,
) -> LocatedBinary | None:
    """Find a usable binary.

    Args:
        binary: which one.
        directory: searched first; None is `KUBEBUILDER_ASSETS`, if set.
        cache: the cache; None is the user's.
        kubernetes: see `selected_kubernetes`.
        from_source: ignore a downloaded one in the cache.

    Returns:
        None if the binary has to be downloaded or built.

    Raises:
        BinaryError: the given directory does not exist or contains another release of the binary.
    """
    module = module_of(binary, selected_kubernetes(kubernetes))
    given = directory if directory is not None else _assets_directory()
    if given is not None:
        if not given.is_dir():
            raise BinaryError(f"{given} is not a directory: correct --binaries or {_ASSETS_VARIABLE}, or omit both")
        candidate = given / binary
        if candidate.exists():
            version = query_version(candidate, binary)
            if not _is_release(version, module.release):
                raise BinaryError(
                    f"{candidate} has {version or 'an unknown version'}, this cluster needs {module.version}:"
                    f" give another directory with --binaries or {_ASSETS_VARIABLE}, or omit both"
                )
            return LocatedBinary(binary, candidate.resolve(), version, BinarySource.DIRECTORY)
    on_path = shutil.which(binary)
    if on_path is not None:
        version = query_version(Path(on_path), binary)
        if _is_release(version, module.release):
            return LocatedBinary(binary, Path(on_path).resolve(), version, BinarySource.PATH)
    cached = find_cached(cache if cache is not None else cache_home(), module, binary, from_source=from_source)
    return LocatedBinary(binary, cached, module.version, BinarySource.CACHE) if cached is not None else None


def ensure(
    binaries: Sequence[Binary] = CONTROL_PLANE,
    *,
    directory: Path | None = None,
    cache: Path | None = None,
    reporter: Reporter | None = None,
    kubernetes: str | None = None,
    from_source: bool = False,
) -> Mapping[Binary, Path]:
    """Find binaries; download or build those that are not found, which takes minutes. Blocks.

    Args:
        binaries: which ones.
        directory: searched first; None is `KUBEBUILDER_ASSETS`, if set.
        cache: the cache; None is the user's.
        reporter: receives the progress of downloads and builds.
        kubernetes: see `selected_kubernetes`.
        from_source: build those that are not found, and do not use downloaded ones.

    Returns:
        The path of each binary.

    Raises:
        BinaryError: a binary is not found and can neither be downloaded nor built; the message states what the user can
            do.
    """
    cache = cache if cache is not None else cache_home()
    minor = selected_kubernetes(kubernetes)
    paths: dict[Binary, Path] = {}
    missing: list[Binary] = []
    for binary in binaries:
        found = find(binary, directory=directory, cache=cache, kubernetes=minor, from_source=from_source)
        if found is None:
            missing.append(binary)
        else:
            paths[binary] = found.path
    if missing:
        receiver = reporter if reporter is not None else SilentReporter()
        paths.update(obtain(cache, missing, receiver, kubernetes=minor, from_source=from_source))
    return paths


def query_version(path: Path, binary: Binary) -> str:
    """Return the version that the binary at `path` reports, like "v1.37.1"; empty if it reports none."""
    arguments = _VERSION_ARGUMENTS.get(binary, ("--version",))
    try:
        reply = subprocess.run(  # noqa: S603 - a path that the user gave or has on PATH
            [path, *arguments], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    # Outputs: Kubernetes v1.37.1; etcd Version: 3.6.13; kwok version v0.7.0 go1.26.8 (linux/amd64).
    match = re.search(r'v?(\d+\.\d+\.\d+[^\s"]*)', reply.stdout)
    return f"v{match[1]}" if match else ""


def _is_release(version: str, release: tuple[int, int]) -> bool:
    match = re.match(r"v(\d+)\.(\d+)\.", version)
    return match is not None and (int(match[1]), int(match[2])) == release


def _assets_directory() -> Path | None:
    value = os.environ.get(_ASSETS_VARIABLE, "")
    return Path(value) if value else None
