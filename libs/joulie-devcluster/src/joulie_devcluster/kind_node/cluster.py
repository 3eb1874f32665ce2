"""A real cluster of kind on a private engine, without a registry: the nodes are containers with systemd and a kubelet.

Limits: requires root. The nodes are not `kindest/node`: they have the same files of kind, but Debian 12's packages, the
containerd and runc of the development cluster, a pod network of this package, no CoreDNS and no volumes.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.containers.engine import Engine
from joulie_devcluster.containers.images import repository_root
from joulie_devcluster.containers.kind import CLUSTER
from joulie_devcluster.errors import EngineError
from joulie_devcluster.host import die_with_parent
from joulie_devcluster.host.paths import cache_home
from joulie_devcluster.host.ports import LOOPBACK, free_port
from joulie_devcluster.host.progress import Reporter
from joulie_devcluster.kind_node import forward
from joulie_devcluster.kind_node.engine import bridged_engine
from joulie_devcluster.kind_node.node_image import node_image

CONTROL_PLANE: Final = f"{CLUSTER}-control-plane"
WORKERS: Final = (f"{CLUSTER}-worker", f"{CLUSTER}-worker2")

_WAIT: Final = "180s"
_API_PORT: Final = "6443/tcp"


@dataclass(frozen=True, slots=True)
class KindCluster:
    """A running cluster.

    Attributes:
        engine: the engine whose containers are the nodes.
        kubeconfig: an administrator's credentials, with an address that this machine reaches.
        kind: the kind executable.
        directory: the cluster's files.
    """

    engine: Engine
    kubeconfig: Path
    kind: Path
    directory: Path

    def load(self, archive: Path) -> None:
        """Load an archive of an image into every node.

        Raises:
            EngineError: kind refused it.
        """
        self.run_kind("load", "image-archive", str(archive), "--name", CLUSTER)

    def execute(self, node: str, *command: str) -> str:
        """Run a command in a node and return its output; EngineError if it fails."""
        return self.engine.run("exec", node, *command)

    def run_kind(self, *arguments: str) -> None:
        """Run kind; EngineError with its output if it fails."""
        environment = {**os.environ, **self.engine.environment, "KIND_EXPERIMENTAL_PROVIDER": "docker"}
        environment["KUBECONFIG"] = str(self.kubeconfig)
        environment["PATH"] = f"{self.engine.client.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        done = subprocess.run(  # noqa: S603 - a built binary
            [str(self.kind), *arguments],
            # Paths in cluster.yaml are relative to the working directory.
            cwd=repository_root(),
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            raise EngineError(f"kind {' '.join(arguments[:2])} failed:\n{(done.stdout + done.stderr)[-6000:]}")


@contextmanager
def kind_cluster(directory: Path, reporter: Reporter, *, kubernetes: str | None = None) -> Iterator[KindCluster]:
    """Run the cluster of the repository's `kind/cluster.yaml`; the first time builds its node image.

    Args:
        directory: receives the cluster's files.
        reporter: receives the progress.
        kubernetes: minor release of Kubernetes; None is `JOULIE_KUBERNETES`, or the default without it.

    Raises:
        DevClusterError: the machine cannot run it, a build failed, or kind failed.
    """
    minor, cache = lookup.selected_kubernetes(kubernetes), cache_home()
    with bridged_engine(cache / "kind-engine", reporter) as engine:
        image = node_image(engine, cache, reporter, kubernetes=minor)
        kind = lookup.ensure((Binary.KIND,), reporter=reporter)[Binary.KIND]
        cluster = KindCluster(engine, directory / "kubeconfig", kind, directory)
        config = repository_root() / "kind" / "cluster.yaml"
        reporter.begin("kind create cluster")
        cluster.run_kind("create", "cluster", "--config", str(config), "--image", image, "--wait", _WAIT)
        reporter.finish()
        with _reachable(cluster):
            yield cluster


@contextmanager
def _reachable(cluster: KindCluster) -> Iterator[None]:
    """Forward a port of this machine to the API server, which is on the loopback of the engine's network."""
    published = cluster.engine.run("port", CONTROL_PLANE, _API_PORT).split()[0].rpartition(":")[2]
    port = free_port()
    command = [sys.executable, "-I", "-S", forward.__file__, str(port), str(cluster.engine.pid), published]
    with subprocess.Popen(  # noqa: S603 - a fixed command
        die_with_parent.wrap(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline().strip() != "forwarding":
                raise EngineError("the API server's port cannot be forwarded: see the output above")
            text = cluster.kubeconfig.read_text()
            address = f"server: https://{LOOPBACK}:{port}"
            cluster.kubeconfig.write_text(re.sub(r"server: https://\S+", address, text))
            yield
        finally:
            process.terminate()
