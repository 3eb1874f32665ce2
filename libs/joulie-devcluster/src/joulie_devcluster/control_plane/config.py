"""Configuration of a cluster."""

from dataclasses import dataclass, field
from pathlib import Path

from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.control_plane.nodes import NodeClass
from joulie_devcluster.control_plane.scheduler_config import SchedulerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """Configuration of one cluster.

    Attributes:
        name: name in kubeconfigs and messages.
        directory: directory of all files of the cluster; must not exist yet. None is a new temporary directory. `down`
            removes it.
        binaries: directory that is searched first for binaries; None is `KUBEBUILDER_ASSETS`, if set.
        kubernetes: minor release of Kubernetes, like "1.36"; None is `JOULIE_KUBERNETES`, or the default without it.
        extender: whether kube-scheduler calls an extender on loopback. It ignores the extender while no process listens
            on the port.
        extender_port: port of the extender; None is a free port, see `DevCluster.extender_port`.
        scheduler: settings of kube-scheduler.
        nodes: classes of KWOK nodes to create.
        start_timeout_s: time that each process has to become ready.
        verbosity: klog's `-v` of the Kubernetes processes.
        node_lease_s: duration of the Lease of a node. A node whose kubelet has ended is not ready after 5/4 of it.
        node_monitor_period_s: how often the controller manager looks at the readiness of nodes, and removes taints of
            those that are ready again. The default is Kubernetes' own.
        etcd_members: members of etcd; the processes after the first are named `etcd-1` and so on.
        audited_users: users whose requests the API server logs, see `DevCluster.audit_log`.
        audited_groups: groups of users whose requests it logs as well.
    """

    name: str = "joulie"
    directory: Path | None = None
    binaries: Path | None = None
    kubernetes: str | None = None
    extender: bool = True
    extender_port: int | None = None
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    nodes: tuple[NodeClass, ...] = ()
    start_timeout_s: float = 180.0
    verbosity: int = 0
    # Renewed after a quarter of it. With 40 s, the kubelet's default, thousands of KWOK nodes send more renewals per
    # second than two cores serve, and nodes whose renewal is late become NotReady.
    node_lease_s: int = 160
    node_monitor_period_s: float = 5.0
    etcd_members: int = 1
    audited_users: tuple[str, ...] = ()
    audited_groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports of the control plane's processes, all on loopback."""

    etcd: int
    apiserver: int
    scheduler: int
    controller_manager: int
    kwok: int
    #: Client ports of the members of etcd after the first.
    more_etcd: tuple[int, ...] = field(default=(), kw_only=True)
    #: Ports on which several members of etcd reach each other.
    etcd_peers: tuple[int, ...] = field(default=(), kw_only=True)

    def of(self, binary: Binary) -> int:
        """Return the port of one process.

        Raises:
            KeyError: the process has no port.
        """
        return {
            Binary.ETCD: self.etcd,
            Binary.APISERVER: self.apiserver,
            Binary.SCHEDULER: self.scheduler,
            Binary.CONTROLLER_MANAGER: self.controller_manager,
            Binary.KWOK: self.kwok,
        }[binary]
