"""The pinned Go modules that the control plane is built from: their commands, versions, linker flags and content hash.

The `go.mod` files under `go_modules/` are the only place where an upstream version is written down.
"""

import hashlib
import platform
import re
import sys
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from pathlib import Path

MODULE_FILES = ("go.mod", "go.sum", "tools.go")
_DIGEST_CHARS = 16
_STRIP = "-s -w"


class Binary(StrEnum):
    """A command of the control plane, of a node or of its users, named as its executable."""

    ETCD = "etcd"
    APISERVER = "kube-apiserver"
    SCHEDULER = "kube-scheduler"
    KWOK = "kwok"
    CONTROLLER_MANAGER = "kube-controller-manager"
    KUBELET = "kubelet"
    HELM = "helm"
    CONTAINERD = "containerd"
    RUNC_SHIM = "containerd-shim-runc-v2"
    CTR = "ctr"


@dataclass(frozen=True, slots=True)
class Module:
    """One upstream. `packages` maps each binary to its Go package; `version` is like "v1.34.4"."""

    name: str
    version: str
    packages: dict[Binary, str]
    ldflags: str
    directory: Path

    @property
    def digest(self) -> str:
        """What a build depends on: the module's files, the linker flags and the machine."""
        content = hashlib.sha256(f"{sys.platform}\0{platform.machine()}\0{self.ldflags}\0".encode())
        for file_name in MODULE_FILES:
            data = (self.directory / file_name).read_bytes()
            content.update(f"{file_name}\0{len(data)}\0".encode() + data)
        return content.hexdigest()[:_DIGEST_CHARS]

    @property
    def cache_key(self) -> str:
        """Directory name of this module's binaries in the cache."""
        return f"{self.name}-{self.version}-{self.digest}"

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor version: within one, binaries of different patch levels work together."""
        return parse_release(self.version)


def parse_release(version: str) -> tuple[int, int]:
    """(1, 34) of "v1.34.4"; ValueError where there is no such version in the text."""
    match = re.search(r"(\d+)\.(\d+)", version)
    if match is None:
        raise ValueError(f"no version in {version!r}")
    return int(match[1]), int(match[2])


@cache
def load_modules() -> tuple[Module, ...]:
    """All modules, in the order in which their binaries are needed first."""
    root = Path(str(resources.files("joulie_devcluster.binaries"))) / "go_modules"
    return (
        _load(root, "etcd", "go.etcd.io/etcd/server/v3", {Binary.ETCD: ""}),
        _load(
            root,
            "kubernetes",
            "k8s.io/kubernetes",
            {
                binary: f"/cmd/{binary}"
                for binary in (Binary.APISERVER, Binary.SCHEDULER, Binary.CONTROLLER_MANAGER, Binary.KUBELET)
            },
        ),
        _load(root, "kwok", "sigs.k8s.io/kwok", {Binary.KWOK: "/cmd/kwok"}),
        _load(root, "helm", "helm.sh/helm/v4", {Binary.HELM: "/cmd/helm"}),
        _load(
            root,
            "containerd",
            "github.com/containerd/containerd/v2",
            {binary: f"/cmd/{binary}" for binary in (Binary.CONTAINERD, Binary.RUNC_SHIM, Binary.CTR)},
        ),
    )


def module_of(binary: Binary) -> Module:
    """The module that a binary is built from."""
    return next(module for module in load_modules() if binary in module.packages)


def _load(root: Path, name: str, upstream: str, paths: dict[Binary, str]) -> Module:
    directory = root / name
    go_mod = (directory / "go.mod").read_text()
    match = re.search(rf"^(?:require )?\s*{re.escape(upstream)} (v\S+)$", go_mod, re.MULTILINE)
    if match is None:
        raise ValueError(f"{directory / 'go.mod'} does not require {upstream}")
    version = match[1]
    packages = {binary: upstream + path for binary, path in paths.items()}
    return Module(name, version, packages, _ldflags(name, version), directory)


def _ldflags(name: str, version: str) -> str:
    """Strip symbols, and tell those their version that act on it.

    Clients of Kubernetes would negotiate features against v0.0.0; a chart may ask for a release of Helm.
    """
    major, minor = parse_release(version)
    stamps: dict[str, str] = {}
    match name:
        case "kubernetes":
            values = {"gitVersion": version, "gitMajor": str(major), "gitMinor": str(minor)}
            stamps = {f"k8s.io/component-base/version.{key}": value for key, value in values.items()}
        case "helm":
            stamps = {"helm.sh/helm/v4/internal/version.version": version}
        case _:
            pass
    return " ".join([_STRIP, *(f"-X {key}={value}" for key, value in stamps.items())])
