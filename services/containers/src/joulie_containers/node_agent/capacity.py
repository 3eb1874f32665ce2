"""The extended resources that the container policy reports, compared with those of the node."""

from collections.abc import Collection, Mapping
from typing import Final

from joulie_containers.node_agent.node_metadata import capacity_problems
from joulie_core.labels import PREFIX
from joulie_core.quantity import parse_quantity

_DOMAIN: Final = PREFIX.rstrip("/")


def capacity_changes(
    reported: Mapping[str, int], capacity: Mapping[str, str], published: Collection[str]
) -> dict[str, str | None]:
    """Return the capacities to set, and None for those to remove.

    Args:
        reported: what the policy reports; a name that Kubernetes does not take is left out.
        capacity: extended resources of the node, as quantities.
        published: names that this process has set. Others that are not reported are removed only where their domain is
            joulie.io or below it, since an earlier process has set them.
    """
    wanted = {name: str(amount) for name, amount in reported.items() if not capacity_problems({name: str(amount)})}
    changed: dict[str, str | None] = {
        name: amount for name, amount in wanted.items() if not _equal(capacity.get(name), amount)
    }
    stale = [name for name in capacity if name not in wanted and (name in published or _is_own(name))]
    return {**changed, **dict.fromkeys(stale)}


def _equal(present: str | None, wanted: str) -> bool:
    """Return whether the node has an amount, in whatever notation: the API server writes 4000 as 4k."""
    return present is not None and parse_quantity(present) == parse_quantity(wanted)


def _is_own(name: str) -> bool:
    domain = name.partition("/")[0]
    return domain == _DOMAIN or domain.endswith(f".{_DOMAIN}")
