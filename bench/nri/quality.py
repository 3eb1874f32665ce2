"""Quality of placements, in numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from joulie_core.containers.idset import Cpus, IdSet
from joulie_core.containers.topology import HardwareTopology


@dataclass(frozen=True)
class Quality:
    """Sums over containers with CPUs of their own."""

    containers: int
    extra_nodes: int
    extra_packages: int
    split_cores: int
    remote_memory: int

    def __str__(self) -> str:
        """Return the figures in the order of the table."""
        return f"{self.extra_nodes:6} {self.extra_packages:9} {self.split_cores:6} {self.remote_memory:7}"


def quality(machine: HardwareTopology, placements: Sequence[tuple[str, str]]) -> Quality:
    """Judge placements, each a list of CPUs and one of memory nodes; an empty list stands for all."""
    sets = [
        (IdSet.parse(cpus) or machine.online, IdSet.parse(memory) or IdSet(machine.nodes))
        for cpus, memory in placements
    ]
    nodes = [node.cpus for node in machine.nodes.values() if node.cpus]
    return Quality(
        containers=len(sets),
        extra_nodes=sum(_extra(cpus, nodes) for cpus, _ in sets),
        extra_packages=sum(_extra(cpus, machine.packages.values()) for cpus, _ in sets),
        split_cores=_split_cores(machine, [cpus for cpus, _ in sets]),
        remote_memory=sum(not memory <= machine.nodes_of(cpus) for cpus, memory in sets),
    )


def _extra(cpus: Cpus, parts: Iterable[Cpus]) -> int:
    """Return how many parts the CPUs are on beyond the fewest on which so many CPUs fit."""
    parts = list(parts)
    fewest, room = 0, 0
    for size in sorted((len(part) for part in parts), reverse=True):
        if room >= len(cpus):
            break
        room += size
        fewest += 1
    return sum(not part.isdisjoint(cpus) for part in parts) - fewest


def _split_cores(machine: HardwareTopology, sets: Sequence[Cpus]) -> int:
    """Return how many cores several containers are on that do not have the same CPUs."""
    return sum(len({cpus & core for cpus in sets if not cpus.isdisjoint(core)}) > 1 for core in machine.cores.values())
