"""Amounts of resources: requests and limits, capacities."""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

#: Quantities are strings on the wire, but a hand-written request may say `1`.
WireQuantities: TypeAlias = dict[str, str | int | float]


class WireRequests(msgspec.Struct):
    """The resources of a container or a pod, of which the requests are enough."""

    requests: WireQuantities | None = None


class WireResources(WireRequests):
    """The resources of a container or a pod."""

    limits: WireQuantities | None = None


def quantities(wire: WireQuantities | None) -> Mapping[str, str]:
    """Return quantities as they are written, by resource."""
    return {name: str(value) for name, value in wire.items()} if wire else {}
