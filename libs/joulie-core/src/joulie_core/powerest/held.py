"""CPUs and GPUs that the pods of each node request, kept up to date pod by pod.

Sums are of whole millionths: exact, so that no order or history of changes shows.
"""

from collections import defaultdict
from typing import Final

from joulie_core.names import NodeName
from joulie_core.powerest.pod_demand import PodDemand

_UNITS: Final = 1_000_000


class HeldDevices:
    """The sums. Give it every pod that is on a node; take a pod out, as it was given, when it has ended."""

    def __init__(self) -> None:
        self._cores: defaultdict[NodeName, int] = defaultdict(int)
        self._gpus: defaultdict[NodeName, int] = defaultdict(int)
        self._pods: defaultdict[NodeName, int] = defaultdict(int)

    def add(self, node: NodeName, demand: PodDemand) -> None:
        """Count a pod."""
        self._shift(node, demand, 1)

    def remove(self, node: NodeName, demand: PodDemand) -> None:
        """Count a pod no longer."""
        self._shift(node, demand, -1)
        if not self._pods[node]:
            for sums in (self._cores, self._gpus, self._pods):
                del sums[node]

    def cores(self, node: NodeName) -> float:
        """Return the hardware threads that the pods of a node request."""
        return self._cores.get(node, 0) / _UNITS

    def gpus(self, node: NodeName) -> float:
        """Return the units of GPUs that the pods of a node request."""
        return self._gpus.get(node, 0) / _UNITS

    def __len__(self) -> int:
        """Return the number of nodes that have pods."""
        return len(self._pods)

    def _shift(self, node: NodeName, demand: PodDemand, sign: int) -> None:
        self._cores[node] += sign * round(demand.cpu_cores * _UNITS)
        self._gpus[node] += sign * round(demand.gpus * _UNITS)
        self._pods[node] += sign
