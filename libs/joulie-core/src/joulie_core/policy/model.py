"""Input and result of a policy.

A policy decides how many of the eligible nodes supply performance and which; it knows nothing of transitions, caps or
Kubernetes. It promises to be deterministic, independent of the order of the candidates, and to assign every candidate
exactly once. Source: docs/policies.md.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from joulie_core.kinds.base import Profile
from joulie_core.names import NodeName


@dataclass(frozen=True, slots=True)
class Candidate:
    """One eligible node."""

    name: NodeName
    #: Normalised compute density, CPU + GPU; higher is preferred for performance.
    density: float
    #: GPU model of a GPU node, CPU model of any other.
    family: str


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """The input of a policy."""

    candidates: Sequence[Candidate]
    #: Active performance pods of the whole cluster, pending ones included.
    performance_pods: int
    #: Wall-clock time in seconds since the epoch.
    now: float
    reconcile_interval_s: float
    #: Candidates that are planned performance already; None where nothing is planned yet.
    planned: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A profile for every candidate."""

    profiles: Mapping[NodeName, Profile]
    #: Why each candidate got its profile; free of counts, so that it changes with the profile only.
    choices: Mapping[NodeName, str]
    performance_count: int
    #: One sentence for the log: how the count came about.
    reason: str


class Policy(Protocol):
    """A planning algorithm with its settings bound."""

    @property
    def name(self) -> str:
        """Name under which the policy is selected and reported."""

    @property
    def follows_demand(self) -> bool:
        """Whether the plan depends on the performance pods; if not, no pod makes a new plan necessary."""

    def plan_key(self, context: PolicyContext) -> Hashable:
        """Return what profiles and choices depend on besides the candidates: equal keys stand for equal ones."""

    def plan(self, context: PolicyContext) -> Plan:
        """Assign a profile to every candidate."""
