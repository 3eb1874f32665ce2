"""Result of one check of `doctor`."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class CheckState(StrEnum):
    """Result of one check."""

    OK = "ok"
    FINDING = "finding"
    #: What is needed could not be read.
    UNCHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """Result of one check; `nodes` are those that it concerns."""

    check: str
    state: CheckState
    text: str
    way_out: str = ""
    nodes: tuple[str, ...] = ()

    def data(self) -> dict[str, Any]:
        """Return the finding for JSON and YAML."""
        return {
            "check": self.check,
            "state": self.state.value,
            "text": self.text,
            "wayOut": self.way_out or None,
            "nodes": list(self.nodes),
        }


def ok(name: str, text: str) -> CheckOutcome:
    """Return that a check found nothing."""
    return CheckOutcome(name, CheckState.OK, text)


def found(name: str, text: str, way_out: str, nodes: tuple[str, ...] = ()) -> CheckOutcome:
    """Return a finding."""
    return CheckOutcome(name, CheckState.FINDING, text, way_out, nodes)


def unchecked(name: str, text: str) -> CheckOutcome:
    """Return that what a check needs could not be read."""
    return CheckOutcome(name, CheckState.UNCHECKED, text)
