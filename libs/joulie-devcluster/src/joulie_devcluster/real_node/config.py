"""Configuration files of a real node's processes. Starts no process.

Paths below /run and /var/lib/kubelet refer to the node's mount namespace (see `namespaces`), where these directories
are the node's own. Source: containerd's configuration, version 3; Kubernetes' KubeletConfiguration, v1beta1.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from joulie_devcluster.containers.oci import BUSYBOX_IMAGE

CONTAINERD_SOCKET: Final = "/run/containerd/containerd.sock"

# Pods use the network of the host, but containerd reports its network as ready only with a configuration. With this
# CNI version no plugin has to be installed until a pod needs a network of its own.
_CNI_NETWORK: Final = {"cniVersion": "1.0.0", "name": "none", "plugins": [{"type": "loopback"}]}
# Kernel settings that a kubelet changes when it starts. It does not start if it cannot change them.
_KERNEL_SETTINGS: Final = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
_EVICTION_SIGNALS: Final = ("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available")


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """Paths of the files of a real node.

    Attributes:
        root: directory of the node, in the cluster's directory.
        logs: directory of the cluster's logs.
    """

    root: Path
    logs: Path

    @property
    def binds(self) -> dict[Path, Path]:
        """The node's own directories by the host directory that each replaces in the node's mount namespace.

        /run for sockets, the other two because their paths are hard-coded in the kubelet.
        """
        return {
            Path("/run"): self.run,
            Path("/var/lib/kubelet"): self.root / "kubelet",
            Path("/var/log/containers"): self.root / "container-logs",
        }

    @property
    def run(self) -> Path:
        """The node's own /run, which is empty after a boot."""
        return self.root / "run"

    @property
    def kernel_settings(self) -> dict[Path, Path]:
        """Copies of kernel settings by the file that each replaces. The kubelet's changes do not affect the host."""
        return {Path("/proc/sys") / name: self.root / "sys" / name for name in _KERNEL_SETTINGS}

    @property
    def pod_logs(self) -> Path:
        """Directory of container logs, the kubelet's `podLogsDir`."""
        return self.logs / "pods"

    @property
    def network(self) -> Path:
        """Directory of the network configuration."""
        return self.root / "cni"

    @property
    def containerd_config(self) -> Path:
        """Configuration file of containerd."""
        return self.root / "containerd.toml"

    @property
    def kubelet_config(self) -> Path:
        """Configuration file of the kubelet."""
        return self.root / "kubelet.yaml"


def network() -> str:
    """Return the network configuration list as JSON."""
    return json.dumps(_CNI_NETWORK)


def containerd_config(layout: NodeLayout, *, runc: Path, snapshotter: str) -> str:
    """Return the configuration of containerd as TOML."""
    root = layout.root
    tables: dict[str, dict[str, object]] = {
        "grpc": {"address": CONTAINERD_SOCKET},
        'plugins."io.containerd.internal.v1.opt"': {"path": str(root / "opt")},
        # The node does not outlive a crash of the host: as with etcd, no write waits for the disk.
        'plugins."io.containerd.metadata.v1.bolt"': {"no_sync": True},
        'plugins."io.containerd.nri.v1.nri"': {
            "socket_path": "/run/nri/nri.sock",
            "plugin_path": str(root / "nri" / "plugins"),
            "plugin_config_path": str(root / "nri" / "conf.d"),
        },
        'plugins."io.containerd.cri.v1.images"': {"snapshotter": snapshotter},
        'plugins."io.containerd.cri.v1.images".pinned_images': {"sandbox": BUSYBOX_IMAGE},
        # Without CAP_SYS_RESOURCE, root cannot set the OOM score that a sandbox should have.
        'plugins."io.containerd.cri.v1.runtime"': {"restrict_oom_score_adj": True},
        'plugins."io.containerd.cri.v1.runtime".cni': {
            "bin_dirs": [str(layout.network / "bin")],
            "conf_dir": str(layout.network),
        },
        'plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc': {"runtime_type": "io.containerd.runc.v2"},
        'plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options': {
            "BinaryName": str(runc),
            "SystemdCgroup": False,
        },
    }
    head = {"version": 3, "root": str(root / "containerd"), "state": "/run/containerd"}
    lines = _toml_values(head)
    for name, values in tables.items():
        lines += ["", f"[{name}]", *_toml_values(values)]
    return "\n".join([*lines, ""])


def kubelet_config(layout: NodeLayout, *, cgroup: str, resolv_conf: Path, lease_s: int) -> dict[str, Any]:
    """Return the configuration of the kubelet.

    Args:
        layout: the node's files.
        cgroup: name of the node's control group.
        resolv_conf: file with the name servers.
        lease_s: duration of the node's Lease.
    """
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "podLogsDir": str(layout.pod_logs),
        "nodeLeaseDurationSeconds": lease_s,
        "volumePluginDir": str(layout.root / "volume-plugins"),
        "resolvConf": str(resolv_conf),
        # No port: the node has no address at which the API server could reach it.
        "enableServer": False,
        "healthzPort": 0,
        "failSwapOn": False,
        # From 1.35 a kubelet does not start on cgroup v1 by default.
        "failCgroupV1": False,
        # The node must not change the host's packet filter.
        "makeIPTablesUtilChains": False,
        # Lowering it requires CAP_SYS_RESOURCE.
        "oomScoreAdj": 0,
        # A developer's disk is often nearly full, and images cannot be pulled again: evict and remove nothing.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": dict.fromkeys(_EVICTION_SIGNALS, "0%"),
        # A container that a test has killed twice must be restarted within the test's timeout: by default the second
        # restart takes 10 s, and each further one twice as long.
        "featureGates": {"KubeletCrashLoopBackOffMax": True},
        "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
    }


def _toml_values(values: dict[str, Any]) -> list[str]:
    # TOML and JSON have the same syntax for strings, booleans, numbers and lists of them.
    return [f"{key} = {json.dumps(value)}" for key, value in values.items()]
