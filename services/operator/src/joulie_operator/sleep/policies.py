"""NodeSleepPolicies as the decision takes them: settings, windows, and which policy a node belongs to."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from joulie_api.wire import Versioned
from joulie_core.kinds import NodeSleepPolicy, NodeSleepPolicySpec
from joulie_core.kinds.node_sleep_policy import AwakeWindowSpec, SleepMode, Weekday
from joulie_core.names import NodeName
from joulie_core.sleep import AwakeWindow, SleepSettings
from joulie_operator.sleep.objects import WatchedNode

_WEEKDAYS: Final = tuple(Weekday)


class UnusableSpec(ValueError):  # noqa: N818 - names the state
    """A policy cannot be used; the message names the field, its value and the way out."""


@dataclass(frozen=True, slots=True)
class UsablePolicy:
    """A policy, and its nodes."""

    name: str
    mode: SleepMode
    settings: SleepSettings
    windows: tuple[AwakeWindow, ...]
    nodes: frozenset[NodeName]
    #: Selected nodes that belong to other policies: how many, by the name of the policy.
    taken: Mapping[str, int]
    selector: Mapping[str, str]


def windows_of(spec: NodeSleepPolicySpec) -> tuple[AwakeWindow, ...]:
    """Return the windows of a policy.

    Raises:
        UnusableSpec: a time zone is not known.
    """
    return tuple(_window(index, each) for index, each in enumerate(spec.schedules))


def usable_policies(
    policies: Iterable[Versioned[NodeSleepPolicy]], nodes: Mapping[str, WatchedNode], managed: Iterable[NodeName]
) -> tuple[dict[str, UsablePolicy], dict[str, UnusableSpec]]:
    """Return the policies that can be used, by name, and the errors of the others."""
    usable: dict[str, UsablePolicy] = {}
    errors: dict[str, UnusableSpec] = {}
    everything = frozenset(name for name in managed if name in nodes)
    owners: dict[NodeName, str] = {}
    for policy in sorted(policies, key=lambda each: each.name):
        spec = policy.model.spec
        selected = {name for name in everything if spec.node_selector.items() <= nodes[name].node.labels.items()}
        own = frozenset(selected - owners.keys())
        taken = Counter(owners[name] for name in selected - own)
        owners |= dict.fromkeys(own, policy.name)
        try:
            windows = windows_of(spec)
        except UnusableSpec as error:
            errors[policy.name] = error
            continue
        usable[policy.name] = UsablePolicy(policy.name, spec.mode, spec, windows, own, taken, spec.node_selector)
    return usable, errors


def _window(index: int, spec: AwakeWindowSpec) -> AwakeWindow:
    try:
        time_zone = ZoneInfo(spec.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        # OSError: the name is that of a directory of the database, such as Europe, or too long for a file.
        raise UnusableSpec(
            f"schedules[{index}].timeZone: {spec.time_zone!r} is not in the time zone database; "
            "write a name such as Europe/Rome"
        ) from error
    return AwakeWindow(
        weekdays=frozenset(_WEEKDAYS.index(day) for day in spec.days),
        from_minute=_minutes(spec.start),
        to_minute=_minutes(spec.end),
        time_zone=time_zone,
        min_awake=spec.min_awake,
    )


def _minutes(clock: str) -> int:
    hours, minutes = clock.split(":")
    return 60 * int(hours) + int(minutes)
