"""The pinned Go modules that binaries are built from: commands, versions, linker flags and content digest.

Upstream versions are defined in the `go.mod` files under `go_modules/` and `nri_runtime/` only. Kubernetes has one for
each minor release that a cluster can run.
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
from typing import Final

#: Minor release of Kubernetes that clusters run unless another one is chosen.
DEFAULT_KUBERNETES: Final = "1.37"

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
    KUBEADM = "kubeadm"
    KUBE_PROXY = "kube-proxy"
    KUBECTL = "kubectl"
    HELM = "helm"
    CYCLONUS = "cyclonus"
    CONTAINERD = "containerd"
    RUNC_SHIM = "containerd-shim-runc-v2"
    CTR = "ctr"
    KIND = "kind"
    CNI_HOST_LOCAL = "host-local"
    CNI_LOOPBACK = "loopback"
    CNI_PTP = "ptp"
    CNI_PORTMAP = "portmap"
    NRI_RUNTIME_0_8 = "nri-runtime-0.8"
    NRI_RUNTIME_0_11 = "nri-runtime-0.11"
    NRI_RUNTIME_0_12 = "nri-runtime-0.12"


@dataclass(frozen=True, slots=True)
class Module:
    """A pinned upstream module.

    Attributes:
        name: short name.
        version: upstream version, like "v1.37.1".
        packages: Go package of each binary.
        ldflags: linker flags.
        directory: directory of `go.mod` and `go.sum`.
        main: source file beside `go.mod`: a command of this repository that uses the module, or `tools.go`, which lists
            upstream's commands.
        tags: build tags.
    """

    name: str
    version: str
    packages: dict[Binary, str]
    ldflags: str
    directory: Path
    main: Path
    tags: str = ""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that a build needs."""
        return (*(self.directory / name for name in _PIN_FILES), self.main)

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
    """Return (1, 37) for "v1.37.1".

    Raises:
        ValueError: the text contains no version.
    """
    match = re.search(r"(\d+)\.(\d+)", version)
    if match is None:
        raise ValueError(f"no version in {version!r}")
    return int(match[1]), int(match[2])


def kubernetes_minors() -> tuple[str, ...]:
    """Return the minor releases of Kubernetes that clusters can run, like "1.37", newest first."""
    releases = (parse_release(path.name) for path in (_go_modules() / "kubernetes").glob("v*"))
    return tuple(f"{major}.{minor}" for major, minor in sorted(releases, reverse=True))


@cache
def load_modules(kubernetes: str = DEFAULT_KUBERNETES) -> tuple[Module, ...]:
    """Return all modules, for a minor release of Kubernetes."""
    commands = (
        Binary.APISERVER,
        Binary.SCHEDULER,
        Binary.CONTROLLER_MANAGER,
        Binary.KUBELET,
        Binary.KUBEADM,
        Binary.KUBE_PROXY,
        Binary.KUBECTL,
    )
    return (
        _load("etcd", "go.etcd.io/etcd/server/v3", {Binary.ETCD: ""}),
        _load("kubernetes", "k8s.io/kubernetes", {each: f"/cmd/{each}" for each in commands}, release=kubernetes),
        _load("kwok", "sigs.k8s.io/kwok", {Binary.KWOK: "/cmd/kwok"}),
        _load("helm", "helm.sh/helm/v4", {Binary.HELM: "/cmd/helm"}),
        _load("cyclonus", "github.com/mattfenwick/cyclonus", {Binary.CYCLONUS: "/cmd/cyclonus"}),
        _load(
            "containerd",
            "github.com/containerd/containerd/v2",
            {each: f"/cmd/{each}" for each in (Binary.CONTAINERD, Binary.RUNC_SHIM, Binary.CTR)},
        ),
        _load("kind", "sigs.k8s.io/kind", {Binary.KIND: ""}),
        _load(
            "cni",
            "github.com/containernetworking/plugins",
            {
                Binary.CNI_HOST_LOCAL: "/plugins/ipam/host-local",
                Binary.CNI_LOOPBACK: "/plugins/main/loopback",
                Binary.CNI_PTP: "/plugins/main/ptp",
                Binary.CNI_PORTMAP: "/plugins/meta/portmap",
            },
        ),
        *(
            _nri_runtime(binary)
            for binary in (Binary.NRI_RUNTIME_0_8, Binary.NRI_RUNTIME_0_11, Binary.NRI_RUNTIME_0_12)
        ),
    )


def module_of(binary: Binary, kubernetes: str = DEFAULT_KUBERNETES) -> Module:
    """Return the module that a binary is built from, for a minor release of Kubernetes."""
    return next(module for module in load_modules(kubernetes) if binary in module.packages)


def _go_modules() -> Path:
    return Path(str(resources.files("joulie_devcluster.binaries"))) / "go_modules"


def _nri_runtime(binary: Binary) -> Module:
    root = Path(str(resources.files("joulie_devcluster.binaries"))) / "nri_runtime"
    directory = root / f"v{binary.removeprefix('nri-runtime-')}"
    version = _pinned_version(directory, "github.com/containerd/nri")
    # Plugins that the runtime runs itself would bring in a WebAssembly engine.
    return Module(binary, version, {binary: "."}, _STRIP, directory, main=root / "main.go", tags="nri_no_wasm")


def _load(name: str, upstream: str, paths: dict[Binary, str], *, release: str = "") -> Module:
    """Return the module in the directory `name`, or in that of one release below it."""
    root = _go_modules() / name
    directory = root / f"v{release}" if release else root
    version = _pinned_version(directory, upstream)
    packages = {binary: upstream + path for binary, path in paths.items()}
    return Module(name, version, packages, _ldflags(name, version), directory, root / "tools.go")


def _pinned_version(directory: Path, upstream: str) -> str:
    go_mod = (directory / "go.mod").read_text()
    match = re.search(rf"^(?:require )?\s*{re.escape(upstream)} (v\S+)$", go_mod, re.MULTILINE)
    if match is None:
        raise ValueError(f"{directory / 'go.mod'} does not require {upstream}")
    return match[1]


def _ldflags(name: str, version: str) -> str:
    """Return flags that strip symbols and, where the version has an effect, set it.

    Without it clients of Kubernetes would negotiate features against v0.0.0, charts that require a Helm release would
    be rejected, and cyclonus would report no version.
    """
    major, minor = parse_release(version)
    stamps: dict[str, str] = {}
    match name:
        case "kubernetes":
            values = {"gitVersion": version, "gitMajor": str(major), "gitMinor": str(minor)}
            stamps = {f"k8s.io/component-base/version.{key}": value for key, value in values.items()}
        case "helm":
            stamps = {"helm.sh/helm/v4/internal/version.version": version}
        case "cyclonus":
            stamps = {"github.com/mattfenwick/cyclonus/pkg/cli.version": version}
        case _:
            pass
    return " ".join([_STRIP, *(f"-X {key}={value}" for key, value in stamps.items())])
