"""What a cluster is asked to be."""

from dataclasses import dataclass, field
from pathlib import Path

from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.control_plane.nodes import NodeClass
from joulie_devcluster.control_plane.scheduler_config import SchedulerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """One cluster.

    Attributes:
        name: its name in kubeconfigs and messages.
        directory: where all its files lie; must not exist yet. None is a new temporary directory. Removed by `down`.
        binaries: directory to look for binaries first; None is `KUBEBUILDER_ASSETS`, if set.
        extender: whether kube-scheduler asks an extender on loopback (ignored while nobody listens there).
        extender_port: the port it asks on; None is a free one, see `DevCluster.extender_port`.
        scheduler: the scheduler's settings.
        nodes: classes of KWOK nodes to create and wait for.
        start_timeout_s: how long each process may take to become ready.
        verbosity: klog's `-v` for the Kubernetes processes.
    """

    name: str = "joulie"
    directory: Path | None = None
    binaries: Path | None = None
    extender: bool = True
    extender_port: int | None = None
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    nodes: tuple[NodeClass, ...] = ()
    start_timeout_s: float = 60.0
    verbosity: int = 0


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one attempt to start, all on loopback."""

    etcd: int
    apiserver: int
    scheduler: int
    controller_manager: int
    kwok: int

    def of(self, binary: Binary) -> int:
        """The port of one process; KeyError for one that has none."""
        return {
            Binary.ETCD: self.etcd,
            Binary.APISERVER: self.apiserver,
            Binary.SCHEDULER: self.scheduler,
            Binary.CONTROLLER_MANAGER: self.controller_manager,
            Binary.KWOK: self.kwok,
        }[binary]
