"""Selects the nodes that supply performance, once a policy has decided how many.

The order is total: density descending, then name. Each hardware family keeps its densest node in performance as long as
the count has room for one of each; a smaller count is filled by density alone. Source:
docs/decisions/0013-conventions.md (planning).
"""

from collections.abc import Iterable
from enum import StrEnum

from joulie_core.kinds.base import Profile
from joulie_core.names import NodeName
from joulie_core.policy.model import Candidate, Plan


class Choice(StrEnum):
    """Reason for a node's profile."""

    FAMILY_FLOOR = "densest node of its hardware family"
    DENSITY = "among the densest nodes"
    SURPLUS = "beyond the performance count"


def order_by_density(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates densest first, equal ones by name."""
    return sorted(candidates, key=lambda candidate: (-candidate.density, candidate.name))


def clamp(value: int, low: int, high: int) -> int:
    """Return `value` moved into [low, high]; `high` wins where the bounds cross."""
    return min(max(value, low), high)


def plan_densest(candidates: Iterable[Candidate], performance_count: int, reason: str) -> Plan:
    """Assign performance to `performance_count` candidates under the family floor, and eco to the rest.

    Args:
        candidates: eligible nodes in any order, names unique.
        performance_count: planned number of performance nodes; clamped to [0, N].
        reason: how the count came about.

    """
    ordered = order_by_density(candidates)
    count = clamp(performance_count, 0, len(ordered))
    choices: dict[NodeName, Choice] = dict.fromkeys(_floor(ordered, count), Choice.FAMILY_FLOOR)
    for candidate in ordered:
        if len(choices) == count:
            break
        choices.setdefault(candidate.name, Choice.DENSITY)
    profiles: dict[NodeName, Profile] = {}
    for candidate in ordered:
        profiles[candidate.name] = Profile.PERFORMANCE if candidate.name in choices else Profile.ECO
        choices.setdefault(candidate.name, Choice.SURPLUS)
    return Plan(profiles=profiles, choices=choices, performance_count=count, reason=reason)


def _floor(ordered: list[Candidate], count: int) -> list[NodeName]:
    """Return the densest node of each family, families in density order; empty where the count is too small."""
    densest: dict[str, NodeName] = {}
    for candidate in ordered:
        densest.setdefault(candidate.family, candidate.name)
    return list(densest.values()) if len(densest) <= count else []
