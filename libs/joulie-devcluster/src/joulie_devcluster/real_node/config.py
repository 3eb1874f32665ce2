"""The configuration files of a real node's processes: pure text, nothing is started here.

Paths below /run and /var/lib/kubelet are those inside the node's enclosure (see `enclosure`), where they are the node's
own. Source: containerd's configuration, version 3; Kubernetes' KubeletConfiguration, v1beta1.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from joulie_devcluster.containers.oci import BUSYBOX_IMAGE

CONTAINERD_SOCKET: Final = "/run/containerd/containerd.sock"

# Pods use the network of the host; containerd still wants to see a network before it says that it has one. At this
# version of the interface no plugin has to be there until a pod asks for a network of its own.
_CNI_NETWORK: Final = {"cniVersion": "1.0.0", "name": "none", "plugins": [{"type": "loopback"}]}
# What a kubelet sets to values of its own when it starts, or refuses to start where it may not.
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
    """Where the files of the real node of one cluster lie."""

    root: Path
    logs: Path

    @property
    def binds(self) -> dict[Path, Path]:
        """The node's own directories, by the path of the system that each takes the place of inside the enclosure.

        /run for sockets, the other two because a kubelet has them built in.
        """
        return {
            Path("/run"): self.root / "run",
            Path("/var/lib/kubelet"): self.root / "kubelet",
            Path("/var/log/containers"): self.root / "container-logs",
        }

    @property
    def kernel_settings(self) -> dict[Path, Path]:
        """Files in which the kubelet finds the kernel's settings, and changes them without effect on the machine."""
        return {Path("/proc/sys") / name: self.root / "sys" / name for name in _KERNEL_SETTINGS}

    @property
    def pod_logs(self) -> Path:
        """The kubelet's `podLogsDir`."""
        return self.logs / "pods"

    @property
    def network(self) -> Path:
        """The directory with the one network configuration."""
        return self.root / "cni"

    @property
    def containerd_config(self) -> Path:
        """The runtime's configuration file."""
        return self.root / "containerd.toml"

    @property
    def kubelet_config(self) -> Path:
        """The kubelet's configuration file."""
        return self.root / "kubelet.yaml"


def network() -> str:
    """The network configuration list, JSON."""
    return json.dumps(_CNI_NETWORK)


def containerd_config(layout: NodeLayout, *, runc: Path, snapshotter: str) -> str:
    """The runtime's configuration, TOML; `snapshotter` is how it puts the layers of an image together."""
    root = layout.root
    tables: dict[str, dict[str, object]] = {
        "grpc": {"address": CONTAINERD_SOCKET},
        'plugins."io.containerd.internal.v1.opt"': {"path": str(root / "opt")},
        'plugins."io.containerd.nri.v1.nri"': {
            "socket_path": "/run/nri/nri.sock",
            "plugin_path": str(root / "nri" / "plugins"),
            "plugin_config_path": str(root / "nri" / "conf.d"),
        },
        'plugins."io.containerd.cri.v1.images"': {"snapshotter": snapshotter},
        'plugins."io.containerd.cri.v1.images".pinned_images': {"sandbox": BUSYBOX_IMAGE},
        # A root without CAP_SYS_RESOURCE may not give a sandbox the score that it is meant to have.
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


def kubelet_config(layout: NodeLayout, *, cgroup: str, resolv_conf: Path) -> dict[str, Any]:
    """The kubelet's configuration; `cgroup` is the name of the node's control group."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "podLogsDir": str(layout.pod_logs),
        "volumePluginDir": str(layout.root / "volume-plugins"),
        "resolvConf": str(resolv_conf),
        # No port at all: the API server could not reach it, as the node has no address.
        "enableServer": False,
        "healthzPort": 0,
        "failSwapOn": False,
        # The machine's packet filter is not the node's.
        "makeIPTablesUtilChains": False,
        # Lowering it takes CAP_SYS_RESOURCE.
        "oomScoreAdj": 0,
        # A developer's disk is often nearly full, and images cannot be pulled again: throw nothing out.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": dict.fromkeys(_EVICTION_SIGNALS, "0%"),
        # A container that a test has killed twice should be back before the test gives up: by default the second time
        # takes 10 s, and each further time twice as long.
        "featureGates": {"KubeletCrashLoopBackOffMax": True},
        "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
    }


def _toml_values(values: dict[str, Any]) -> list[str]:
    # Strings, booleans, numbers and lists of them are written in TOML as in JSON.
    return [f"{key} = {json.dumps(value)}" for key, value in values.items()]
