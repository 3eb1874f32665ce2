"""The node image of kind, built once for each content into an engine; the engine's store is its cache."""

import hashlib
import platform
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final

from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.modules import Binary, module_of
from joulie_devcluster.containers.engine import Engine
from joulie_devcluster.containers.oci import write_image_archive
from joulie_devcluster.errors import EngineError
from joulie_devcluster.host.progress import Reporter
from joulie_devcluster.kind_node import rootfs, store
from joulie_devcluster.kind_node.images import image_contents
from joulie_devcluster.real_node.requirements import find_busybox

_REPOSITORY: Final = "joulie/kind-node"
_IMPORTED: Final = f"{_REPOSITORY}:imported"
#: What `docker import` cannot set: the signal at which systemd stops its units and ends.
_DOCKERFILE: Final = f"FROM {_IMPORTED}\nSTOPSIGNAL SIGRTMIN+3\n"


def node_image(engine: Engine, cache: Path, reporter: Reporter, *, kubernetes: str) -> str:
    """Return the name of the node image in an engine; build it, and remove older ones, if the engine does not have it.

    Args:
        engine: receives the image.
        cache: directory of what is downloaded and built.
        reporter: receives the progress.
        kubernetes: minor release of Kubernetes, like "1.37".

    Raises:
        BinaryError: a binary is missing and cannot be built.
        EngineError: a step failed; the message contains the end of its output.
    """
    paths = lookup.ensure(lookup.KIND_NODE, cache=cache, reporter=reporter, kubernetes=kubernetes)
    version = module_of(Binary.KUBELET, kubernetes).version
    name = f"{_REPOSITORY}:{version}-{_digest(kubernetes)}"
    if engine.has_image(name):
        return name
    base = rootfs.base_archive(cache, reporter)
    for old in engine.run("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", _REPOSITORY).split():
        engine.run("image", "rm", "--force", old)
    reporter.begin(f"node image of kind with Kubernetes {version}")
    with tempfile.TemporaryDirectory(prefix="kind-node-", dir=cache) as directory:
        root, archives = Path(directory, "root"), Path(directory, "images")
        root.mkdir()
        archives.mkdir()
        rootfs.assemble(root, base, paths, version=version)
        _write_images(root, archives, paths, version)
        store.fill(root, sorted(archives.iterdir()), paths)
        _import(engine, root, name)
    reporter.finish()
    return name


def _digest(kubernetes: str) -> str:
    """Return a digest of what the image is made from: modules of the binaries, and the files of this package."""
    keys = sorted({module_of(binary, kubernetes).cache_key for binary in lookup.KIND_NODE})
    digest = hashlib.sha256("\n".join(keys).encode())
    package = Path(str(resources.files("joulie_devcluster.kind_node")))
    recipe = [Path(name) for name in ("rootfs.py", "images.py", "store.py", "node_image.py")]
    for path in [*recipe, *sorted(each.relative_to(package) for each in (package / "data").iterdir())]:
        digest.update(f"{path}\0".encode() + (package / path).read_bytes())
    return digest.hexdigest()[:16]


def _write_images(root: Path, directory: Path, paths: Mapping[Binary, Path], version: str) -> None:
    busybox = find_busybox()
    assert busybox is not None
    containerd = tomllib.loads((root / "etc/containerd/config.toml").read_text())
    pause = containerd["plugins"]["io.containerd.grpc.v1.cri"]["sandbox_image"]
    contents = image_contents(root, paths, version=version, pause=pause, busybox=busybox)
    for number, content in enumerate(contents):
        write_image_archive(content, directory / f"{number}.tar", machine=platform.machine())


def _import(engine: Engine, root: Path, name: str) -> None:
    entrypoint = 'ENTRYPOINT [ "/usr/local/bin/entrypoint", "/sbin/init" ]'
    changes = ["--change", "ENV container=docker", "--change", entrypoint]
    tar = ["/bin/tar", "--numeric-owner", "--directory", str(root), "--create", "."]
    with subprocess.Popen(tar, stdout=subprocess.PIPE) as archive:  # noqa: S603 - a fixed command
        engine.run("import", *changes, "-", _IMPORTED, stdin=archive.stdout)
    if archive.returncode != 0:
        raise EngineError(f"{root} cannot be archived: tar failed with status {archive.returncode}")
    with tempfile.TemporaryDirectory(prefix="kind-node-") as directory:
        (Path(directory) / "Dockerfile").write_text(_DOCKERFILE)
        # BuildKit would ask a registry for the base.
        engine.run("build", "--tag", name, directory, env={"DOCKER_BUILDKIT": "0"})
    engine.run("image", "rm", _IMPORTED)
