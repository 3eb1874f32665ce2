"""CPUs of a node that a policy may use, from the options `availableResources` and `reservedResources`.

Both options are `cpuset:LIST`, `exclude-cpuset:LIST` or, for reserved CPUs, a Kubernetes quantity such as `750m`.
"""

from dataclasses import dataclass
from math import ceil
from typing import Final

from joulie_core.containers.idset import Cpus, IdSet, InvalidIdListError
from joulie_core.containers.policy import PolicyConfigError
from joulie_core.containers.topology import HardwareTopology
from joulie_core.quantity import QuantityError, parse_quantity

_SET: Final = "cpuset:"
_EXCEPT: Final = "exclude-cpuset:"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCpus:
    """The CPUs that a policy may use."""

    #: All that containers may use, reserved ones included; not empty.
    available: Cpus
    #: The reserved CPUs where a set is configured; None where a number is, or nothing.
    reserved_set: Cpus | None = None
    #: How many CPUs are reserved, rounded up.
    reserved_count: int = 0


def node_cpus(topology: HardwareTopology, available: str | None, reserved: str | float | None) -> NodeCpus:
    """Resolve the options on a node.

    Args:
        topology: The node; CPUs that are not online are never available.
        available: `availableResources.cpu`; None for all CPUs.
        reserved: `reservedResources.cpu`; None for no CPUs.

    Raises:
        PolicyConfigError: An option has another form, no CPU is available, or reserved CPUs are not.
    """
    configured = _available_set(topology, available)
    usable = topology.online & configured
    if not usable:
        raise PolicyConfigError(
            f"availableResources.cpu: {available!r} has no CPU that is online; online are {topology.online}"
        )
    if reserved is None:
        return NodeCpus(available=usable)
    chosen = _set(configured, "reservedResources.cpu", reserved)
    if chosen is None:
        return NodeCpus(available=usable, reserved_count=_count(usable, reserved))
    # A reserved CPU that is offline now must not make the configuration invalid.
    online = chosen & usable
    if not online or not chosen <= configured:
        raise PolicyConfigError(
            f"reservedResources.cpu: {reserved!r} must be one or more of the available CPUs {usable}"
        )
    return NodeCpus(available=usable, reserved_set=online, reserved_count=len(online))


def _available_set(topology: HardwareTopology, option: str | None) -> Cpus:
    present = topology.online | topology.offline
    if option is None:
        return present
    chosen = _set(present, "availableResources.cpu", option)
    if chosen is None:
        raise PolicyConfigError(f"availableResources.cpu: {option!r} is not a set of CPUs, such as cpuset:0-7")
    return chosen


def _set(usable: Cpus, field: str, option: str | float) -> Cpus | None:
    """Return the CPUs that an option lists or leaves, None where it is not about a set."""
    for prefix in (_SET, _EXCEPT):
        if isinstance(option, str) and option.startswith(prefix):
            try:
                listed = IdSet.parse(option.removeprefix(prefix))
            except InvalidIdListError as error:
                raise PolicyConfigError(f"{field}: {option!r}: {error}") from error
            return listed if prefix == _SET else usable - listed
    return None


def _count(usable: Cpus, quantity: str | float) -> int:
    try:
        count = ceil(parse_quantity(quantity))
    except QuantityError as error:
        raise PolicyConfigError(
            f"reservedResources.cpu: {quantity!r} is neither a number of CPUs, such as 750m, "
            "nor a set, such as cpuset:0-1"
        ) from error
    if not 0 <= count <= len(usable):
        raise PolicyConfigError(
            f"reservedResources.cpu: {quantity!r} is not between 0 and the {len(usable)} available CPUs"
        )
    return count
