"""Entries of a node in the status of objects, within the bounds of their schemas."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from joulie_containers.node_agent.objects import Entry, NodeObject
from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_core.kinds.adjustment import MOST_ERRORS, WHOLE_OBJECT
from joulie_core.kinds.bounds import cut_text
from joulie_core.kinds.container_policy import PolicyOutcome

_cut_error: Final = cut_text(4096)
_cut_adjustment_error: Final = cut_text(1024)
_cut_path: Final = cut_text(256)
_cut_shortfall: Final = cut_text(1024)
_MOST_IGNORED: Final = 32


def policy_entry(each: NodeObject, error: str, ignored: Iterable[str], shortfalls: Mapping[str, object]) -> Entry:
    """Return the entry of a configuration that was pushed.

    Args:
        each: the object.
        error: why it is not used; empty where it is.
        ignored: paths of fields that have no effect.
        shortfalls: what of it is not in force, by field of the entry.
    """
    outcome = PolicyOutcome.FAILURE if error else PolicyOutcome.SUCCESS
    errors = {"errors": _cut_error(error)} if error else {}
    named = [_cut_path(path) for path in islice(ignored, _MOST_IGNORED)]
    details = {**errors, **({"ignored": named} if named else {}), **shortfalls}
    return {"status": str(outcome), "generation": each.generation, **details}


def adjustment_entry(each: NodeObject, errors: Mapping[str, str]) -> Entry | None:
    """Return the entry of an Adjustment with its errors, by place; None without any."""
    shown = _shown(errors)
    return {"generation": each.generation, "errors": shown} if shown else None


def shortfalls_of(state: pb.ManagerStatus) -> dict[str, object]:
    """Return what of the configuration is not in force, by field of the entry."""
    found = {"cpuClasses": state.cpu_classes_problem, "interrupts": state.interrupts_problem}
    return {name: _cut_shortfall(text) for name, text in found.items() if text}


def _shown(errors: Mapping[str, str]) -> dict[str, object]:
    shown = {place or WHOLE_OBJECT: _cut_adjustment_error(text) for place, text in sorted(errors.items())}
    if len(shown) <= MOST_ERRORS:
        return shown
    kept = dict(list(shown.items())[: MOST_ERRORS - 1])
    return {**kept, "more": f"{len(shown) - len(kept)} more errors"}
