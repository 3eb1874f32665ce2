"""The file system of a node: Debian packages, kind's files and built binaries.

It follows the Dockerfile of kind's base image (`images/base` of its Go module), whose files are taken from there.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.build import go_environment, remove_tree
from joulie_devcluster.binaries.modules import Binary, Module, module_of
from joulie_devcluster.binaries.toolchain import install_go, system_go
from joulie_devcluster.errors import EngineError
from joulie_devcluster.host.command import run
from joulie_devcluster.host.progress import Reporter
from joulie_devcluster.kind_node.engine import data_file

_SUITE: Final = "bookworm"
_PACKAGES: Final = (
    *("systemd", "systemd-sysv", "procps", "hostname", "util-linux", "mount", "kmod", "bash", "ca-certificates"),
    *("conntrack", "iptables", "nftables", "iproute2", "ethtool", "libseccomp2", "runc", "curl", "jq"),
)
_NOT_NEEDED: Final = (
    *("usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/lintian"),
    *("var/cache/apt", "var/lib/apt/lists"),
)
#: Units that only start on a machine of its own.
_REMOVED_UNITS: Final = (
    "lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service",
    "lib/systemd/system/multi-user.target.wants/*",
    "etc/systemd/system/*.wants/*",
    "lib/systemd/system/local-fs.target.wants/*",
    "lib/systemd/system/sockets.target.wants/*udev*",
    "lib/systemd/system/sockets.target.wants/*initctl*",
    "lib/systemd/system/basic.target.wants/*",
)
_SERVICES: Final = ("kubelet", "containerd", "undo-mount-hacks", "shield-settings")
_SYSTEM: Final = Path("etc/systemd/system")


def base_archive(cache: Path, reporter: Reporter) -> Path:
    """Return an archive of Debian with the packages of a node; create it if it does not exist.

    Raises:
        EngineError: the packages cannot be downloaded or installed.
    """
    digest = hashlib.sha256(repr((_SUITE, _PACKAGES, _NOT_NEEDED)).encode()).hexdigest()[:16]
    archive = cache / f"kind-base-{digest}.tar"
    if archive.exists():
        return archive
    reporter.begin("packages of a node of kind")
    with tempfile.TemporaryDirectory(prefix="kind-base-", dir=cache) as directory:
        root, partial = Path(directory, "root"), Path(directory, "base.tar")
        run("debootstrap", "--variant=minbase", f"--include={','.join(_PACKAGES)}", _SUITE, str(root))
        for name in _NOT_NEEDED:
            shutil.rmtree(root / name, ignore_errors=True)
        run("tar", "--numeric-owner", "--create", "--file", str(partial), "--directory", str(root), ".")
        partial.replace(archive)
    reporter.finish()
    return archive


def assemble(root: Path, base: Path, paths: Mapping[Binary, Path], *, version: str) -> None:
    """Fill an empty directory with the file system of a node, without images.

    Args:
        root: the directory.
        base: archive of the packages.
        paths: built binaries.
        version: of Kubernetes, like "v1.37.1".
    """
    run("tar", "--numeric-owner", "--extract", "--file", str(base), "--directory", str(root))
    _install_kind_files(root)
    _configure_systemd(root)
    _install_binaries(root, paths)
    (root / "kind/version").write_text(version)
    config = root / "etc/containerd/config.toml"
    text = config.read_text()
    # Where root lacks CAP_SYS_RESOURCE no sandbox would start.
    restricted = text.replace("restrict_oom_score_adj = false", "restrict_oom_score_adj = true")
    if restricted == text:
        raise EngineError("kind's configuration of containerd has no restrict_oom_score_adj = false any more")
    config.write_text(restricted)
    spec = json.loads(run(str(paths[Binary.CTR]), "oci", "spec"))
    spec.setdefault("hooks", {}).setdefault("createContainer", []).append({"path": "/kind/bin/mount-product-files.sh"})
    del spec["process"]["rlimits"]
    (root / "etc/containerd/cri-base.json").write_text(json.dumps(spec))
    manifests = root / "kind/manifests"
    manifests.mkdir()
    for name in ("default-cni.yaml", "default-storage.yaml"):
        (manifests / name).write_text(data_file(name))
    for name in ("etc/kubernetes/manifests", "etc/cni/net.d", "lib/modules"):
        (root / name).mkdir(parents=True, exist_ok=True)


def _install_kind_files(root: Path) -> None:
    """Copy the files of kind's base image, which are in kind's Go module."""
    with tempfile.TemporaryDirectory(prefix="joulie-kind-") as directory:
        work = Path(directory)
        try:
            files = _download(module_of(Binary.KIND), work) / "images/base/files"
            for source in sorted(each for each in files.rglob("*") if each.is_file()):
                target = root / source.relative_to(files)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
                target.chmod(0o755 if "bin" in target.parent.parts[-2:] else 0o644)
        finally:
            # Go's directories are read-only.
            for each in work.iterdir():
                remove_tree(each)


def _download(module: Module, work: Path) -> Path:
    go = system_go() or install_go(work / "toolchain")
    source = work / module.name
    source.mkdir()
    for file in module.files:
        shutil.copyfile(file, source / file.name)
    reply = run(str(go), "mod", "download", "-json", "sigs.k8s.io/kind", cwd=source, env=go_environment(work))
    return Path(json.loads(reply)["Dir"])


def _configure_systemd(root: Path) -> None:
    for pattern in _REMOVED_UNITS:
        for unit in root.glob(pattern):
            unit.unlink()
    with (root / "etc/systemd/journald.conf").open("a") as stream:
        stream.write("ReadKMsg=no\n")
    script = root / "kind/bin/shield-settings.sh"
    script.write_text(data_file(script.name))
    script.chmod(0o755)
    (root / _SYSTEM / "shield-settings.service").write_text(data_file("shield-settings.service"))
    wants = root / _SYSTEM / "multi-user.target.wants"
    wants.mkdir(exist_ok=True)
    for service in _SERVICES:
        (wants / f"{service}.service").symlink_to(f"/{_SYSTEM}/{service}.service")
    # It would register formats for the whole machine.
    (root / _SYSTEM / "systemd-binfmt.service").symlink_to("/dev/null")
    init = root / "sbin/init"
    init.unlink(missing_ok=True)
    init.symlink_to("/lib/systemd/systemd")


def _install_binaries(root: Path, paths: Mapping[Binary, Path]) -> None:
    places = {
        "usr/bin": (Binary.KUBEADM, Binary.KUBECTL, Binary.KUBELET),
        "usr/local/bin": (Binary.CONTAINERD, Binary.RUNC_SHIM, Binary.CTR),
        "opt/cni/bin": lookup.CNI_PLUGINS,
    }
    for place, binaries in places.items():
        (root / place).mkdir(parents=True, exist_ok=True)
        for binary in binaries:
            shutil.copyfile(paths[binary], root / place / binary)
            (root / place / binary).chmod(0o755)
