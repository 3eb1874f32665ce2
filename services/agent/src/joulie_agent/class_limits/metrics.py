"""The series of limits by class: those that GPUs would have, and those that are set."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.metrics_core import Metric

from joulie_agent.class_limits.enforcement import ClassLimitEnforcement
from joulie_agent.class_limits.shadow import ShadowState, is_limited
from joulie_agent.class_limits.starts import ContainerStarts
from joulie_api.metrics import counter, gauge
from joulie_core.class_caps.limit_effect import EffectBand, NotStated

_States = Mapping[str, ShadowState]
_BAND: Final = ("node", "bound")


def limit_families(states: _States) -> Iterator[Metric]:
    """Yield the series, of the states of each node."""
    yield gauge(
        "joulie_class_limit_gpus",
        "GPUs by whether the class of their holders would limit them, and why, also where nothing is set.",
        ("node", "limited", "reason"),
        (((node, *key), count) for node, state in states.items() for key, count in _by_reason(state).items()),
    )
    yield gauge(
        "joulie_class_limit_saved_watts",
        "Power that the limits would save now, in watts; upper has no sample where it is not stated for a limited GPU.",
        _BAND,
        ((key, watts) for node, state in states.items() for key, watts in _saved(node, state)),
    )
    yield gauge(
        "joulie_class_limit_unstated_gpus",
        "GPUs that would be limited and whose savings are not stated, by reason.",
        ("node", "reason"),
        (((node, reason), count) for node, state in states.items() for reason, count in _unstated(state).items()),
    )
    yield counter(
        "joulie_class_limit_slowdown_seconds_total",
        "GPU time that the limits would have cost, in seconds, over the GPUs of a node.",
        _BAND,
        (
            ((node, bound), seconds)
            for node, state in states.items()
            for bound, seconds in (
                ("lower", state.counts.slowdown_lower_s),
                ("upper", state.counts.slowdown_upper_s),
            )
        ),
    )
    yield counter(
        "joulie_class_limit_unstated_seconds_total",
        "GPU time with a limit whose slowdown is not stated, in seconds, and in no other count.",
        ("node",),
        (((node,), state.counts.unstated_s) for node, state in states.items()),
    )


def enforcement_families(node: str, enforced: ClassLimitEnforcement) -> Iterator[Metric]:
    """Yield the series of the limits that are set on a node."""
    counts, labels = enforced.counts, ("node",)
    yield gauge(
        "joulie_class_limit_set_gpus",
        "GPUs whose clock is, or may be, limited by class now.",
        labels,
        [((node,), enforced.limited)],
    )
    yield gauge(
        "joulie_class_limit_without_consent_gpus",
        "GPUs whose clock is still limited by class although not all that hold them consent; above 0 only while a "
        "limit cannot be lifted.",
        labels,
        [((node,), enforced.without_consent)],
    )
    yield counter(
        "joulie_class_limit_lifts_total", "Limits by class that were lifted.", labels, [((node,), counts.lifts)]
    )
    yield counter(
        "joulie_class_limit_lift_seconds_total",
        "Time from the look that ended a limit by class to the answer that it is lifted, over all lifts.",
        labels,
        [((node,), counts.lift_s)],
    )
    yield gauge(
        "joulie_class_limit_longest_lift_seconds",
        "The longest of these times since the agent has started.",
        labels,
        [((node,), counts.longest_lift_s)],
    )
    yield counter(
        "joulie_class_limit_failures_total",
        "GPUs whose limit by class was not set, or not lifted, by one request; it is sent again.",
        ("node", "action"),
        [((node, "set"), counts.failed_sets), ((node, "lift"), counts.failed_lifts)],
    )


def start_families(node: str, starts: ContainerStarts) -> Iterator[Metric]:
    """Yield the series of the containers that wait until limits are lifted, on a node."""
    yield gauge(
        "joulie_class_limit_waits_seconds",
        "How long containers wait until limits by class are lifted; no sample while these are lifted by polling.",
        ("node",),
        [((node,), starts.waits_s)],
    )
    yield counter(
        "joulie_class_limit_limited_starts_total",
        "Containers that were, or perhaps were, started while a GPU of their pod had a limit by class that was to be "
        "lifted.",
        ("node",),
        [((node,), starts.limited_starts)],
    )


def _by_reason(state: ShadowState) -> Counter[tuple[str, str]]:
    return Counter(
        ("true" if is_limited(each) else "false", str(each.held.limit.reason)) for each in (state.limits or {}).values()
    )


def _saved(node: str, state: ShadowState) -> Iterator[tuple[tuple[str, str], float | None]]:
    if state.limits is None:
        return
    found = _saved_of(state)
    bands = [each for each in found if isinstance(each, EffectBand)]
    # What is not stated is not below zero.
    yield (node, "lower"), sum(each.lower for each in bands)
    yield (node, "upper"), sum(each.upper for each in bands) if len(bands) == len(found) else None


def _unstated(state: ShadowState) -> Counter[str]:
    return Counter(str(each) for each in _saved_of(state) if not isinstance(each, EffectBand))


def _saved_of(state: ShadowState) -> list[EffectBand | NotStated]:
    return [each.effect.saved_watts for each in (state.limits or {}).values() if each.effect is not None]
