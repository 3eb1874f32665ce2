"""The pinned Go modules that binaries are built from: commands, versions, linker flags and content digest.

Upstream versions are defined in the `go.mod` files under `go_modules/` and `nri_runtime/` only.
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

_PIN_FILES = ("go.mod", "go.sum")
_DIGEST_CHARS = 16
_STRIP = "-s -w"


class Binary(StrEnum):
    """An executable of the control plane, of a node, of a client or of a test; the value is its file name."""

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
    NRI_RUNTIME_0_8 = "nri-runtime-0.8"
    NRI_RUNTIME_0_11 = "nri-runtime-0.11"
    NRI_RUNTIME_0_12 = "nri-runtime-0.12"


@dataclass(frozen=True, slots=True)
class Module:
    """A pinned upstream module.

    Attributes:
        name: short name.
        version: upstream version, like "v1.34.4".
        packages: Go package of each binary.
        ldflags: linker flags.
        directory: directory of `go.mod` and `go.sum`.
        main: source of a command of this repository that uses the module; None where the commands are upstream's,
            which `tools.go` in the directory lists.
        tags: build tags.
    """

    name: str
    version: str
    packages: dict[Binary, str]
    ldflags: str
    directory: Path
    main: Path | None = None
    tags: str = ""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that a build needs."""
        return (*(self.directory / name for name in _PIN_FILES), self.main or self.directory / "tools.go")

    @property
    def digest(self) -> str:
        """Digest of the inputs of a build: the module's files, the flags and the platform."""
        content = hashlib.sha256(f"{sys.platform}\0{platform.machine()}\0{self.ldflags}\0{self.tags}".encode())
        for file in self.files:
            data = file.read_bytes()
            content.update(f"{file.name}\0{len(data)}\0".encode() + data)
        return content.hexdigest()[:_DIGEST_CHARS]

    @property
    def cache_key(self) -> str:
        """Name of the cache directory of this module's binaries."""
        return f"{self.name}-{self.version}-{self.digest}"

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor version. Binaries of one release work together whatever their patch versions are."""
        return parse_release(self.version)


def parse_release(version: str) -> tuple[int, int]:
    """Return (1, 34) for "v1.34.4".

    Raises:
        ValueError: the text contains no version.
    """
    match = re.search(r"(\d+)\.(\d+)", version)
    if match is None:
        raise ValueError(f"no version in {version!r}")
    return int(match[1]), int(match[2])


@cache
def load_modules() -> tuple[Module, ...]:
    """Return all modules, in the order in which a cluster needs their binaries."""
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
        *(
            _nri_runtime(binary)
            for binary in (Binary.NRI_RUNTIME_0_8, Binary.NRI_RUNTIME_0_11, Binary.NRI_RUNTIME_0_12)
        ),
    )


def module_of(binary: Binary) -> Module:
    """Return the module that a binary is built from."""
    return next(module for module in load_modules() if binary in module.packages)


def _nri_runtime(binary: Binary) -> Module:
    root = Path(str(resources.files("joulie_devcluster.binaries"))) / "nri_runtime"
    directory = root / f"v{binary.removeprefix('nri-runtime-')}"
    version = _pinned_version(directory, "github.com/containerd/nri")
    # Plugins that the runtime runs itself would bring in a WebAssembly engine.
    return Module(binary, version, {binary: "."}, _STRIP, directory, main=root / "main.go", tags="nri_no_wasm")


def _load(root: Path, name: str, upstream: str, paths: dict[Binary, str]) -> Module:
    directory = root / name
    version = _pinned_version(directory, upstream)
    packages = {binary: upstream + path for binary, path in paths.items()}
    return Module(name, version, packages, _ldflags(name, version), directory)


def _pinned_version(directory: Path, upstream: str) -> str:
    go_mod = (directory / "go.mod").read_text()
    match = re.search(rf"^(?:require )?\s*{re.escape(upstream)} (v\S+)$", go_mod, re.MULTILINE)
    if match is None:
        raise ValueError(f"{directory / 'go.mod'} does not require {upstream}")
    return match[1]


def _ldflags(name: str, version: str) -> str:
    """Return flags that strip symbols and, where the version has an effect, set it.

    Without it clients of Kubernetes would negotiate features against v0.0.0, and charts that require a Helm release
    would be rejected.
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
