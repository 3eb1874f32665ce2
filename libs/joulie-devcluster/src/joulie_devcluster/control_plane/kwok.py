"""Configuration and command line of KWOK, which acts as the kubelet of simulated nodes. Starts no process."""

from pathlib import Path

import yaml

from joulie_devcluster.control_plane.manifests import DATA, load_manifests
from joulie_devcluster.control_plane.nodes import KWOK_ANNOTATION, KWOK_ANNOTATION_VALUE
from joulie_devcluster.control_plane.pki import write_file
from joulie_devcluster.host.ports import LOOPBACK


def write_configuration(path: Path, *, lease_s: int) -> None:
    """Write the configuration file.

    Args:
        path: the file.
        lease_s: duration of the Lease of a node, which is renewed after a quarter of it. Must be less than the
            controller manager's grace period of nodes.
    """
    options = {
        "manageNodesWithAnnotationSelector": f"{KWOK_ANNOTATION}={KWOK_ANNOTATION_VALUE}",
        "nodeLeaseDurationSeconds": lease_s,
        # With the defaults of 4, a thousand nodes or pods queue on an idle machine.
        "nodePlayStageParallelism": 16,
        "podPlayStageParallelism": 16,
        "nodeLeaseParallelism": 16,
    }
    configuration = {"apiVersion": "config.kwok.x-k8s.io/v1alpha1", "kind": "KwokConfiguration", "options": options}
    # Its built-in stages apply to pods.
    documents = [configuration, *load_manifests(DATA / "kwok-stages.yaml")]
    write_file(path, yaml.safe_dump_all(documents, sort_keys=False).encode())


def arguments(configuration: Path, kubeconfig: Path, port: int) -> list[str]:
    """Return the command line without the executable; `port` serves /healthz on the loopback."""
    return [
        # Always passed: without it KWOK reads the user's ~/.kwok/kwok.yaml.
        f"--config={configuration}",
        f"--kubeconfig={kubeconfig}",
        f"--server-address={LOOPBACK}:{port}",
        # By default it logs every renewal of every Lease.
        "--v=WARN",
    ]
