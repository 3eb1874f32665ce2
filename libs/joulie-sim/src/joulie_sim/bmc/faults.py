"""Faults of a simulated BMC: what it does with some requests instead of serving them."""

import asyncio
from dataclasses import dataclass, field
from http import HTTPStatus


@dataclass(frozen=True, slots=True)
class BmcFault:
    """A fault that lasts until it is removed.

    Requests of `methods` (all if empty) are answered with `status`, or never where that is None; with `carried_out`
    they have their effect first. `met` is set at the first such request.
    """

    methods: frozenset[str] = frozenset()
    status: HTTPStatus | None = None
    retry_after_s: int | None = None
    carried_out: bool = False
    met: asyncio.Event = field(default_factory=asyncio.Event)

    def concerns(self, method: str) -> bool:
        """Return whether requests of a method meet the fault."""
        return not self.methods or method in self.methods
