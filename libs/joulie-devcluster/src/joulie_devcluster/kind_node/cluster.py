"""A real cluster of kind on a private engine, without a registry: the nodes are containers with systemd and a kubelet.

Limits: requires root. The nodes are not `kindest/node`: they have the same files of kind, but Debian 12's packages, the
containerd and runc of the development cluster, a pod network of this package, no CoreDNS and no volumes.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.containers.kind import CONTROL_PLANE, KindCluster
from joulie_devcluster.errors import EngineError
from joulie_devcluster.host import die_with_parent
from joulie_devcluster.host.paths import cache_home
from joulie_devcluster.host.ports import LOOPBACK, free_port
from joulie_devcluster.host.progress import Reporter
from joulie_devcluster.kind_node import forward
from joulie_devcluster.kind_node.engine import bridged_engine
from joulie_devcluster.kind_node.node_image import node_image

_API_PORT: Final = "6443/tcp"


def engine_data() -> Path:
    """Return the directory of the engine whose containers are the nodes."""
    return cache_home() / "kind-engine"


@contextmanager
def kind_cluster(directory: Path, reporter: Reporter, *, kubernetes: str) -> Iterator[KindCluster]:
    """Run the cluster of the repository's `kind/cluster.yaml`; the first time builds its node image.

    Args:
        directory: receives the kubeconfig.
        reporter: receives the progress.
        kubernetes: minor release of Kubernetes, like "1.37".

    Raises:
        DevClusterError: the machine cannot run it, a build failed, or kind failed.
    """
    with bridged_engine(engine_data(), reporter) as engine:
        image = node_image(engine, cache_home(), reporter, kubernetes=kubernetes)
        kind = lookup.ensure((Binary.KIND,), reporter=reporter)[Binary.KIND]
        kubeconfig = directory / "kubeconfig"
        cluster = KindCluster(engine=engine, kind=kind, kubeconfig=kubeconfig, private=True)
        reporter.begin("kind create cluster")
        cluster.create(image)
        reporter.finish()
        with _reachable(cluster, kubeconfig):
            yield cluster


@contextmanager
def _reachable(cluster: KindCluster, kubeconfig: Path) -> Iterator[None]:
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
            address = f"server: https://{LOOPBACK}:{port}"
            kubeconfig.write_text(re.sub(r"server: https://\S+", address, kubeconfig.read_text()))
            yield
        finally:
            process.terminate()
