"""Counters of savings, as the operator exports them."""

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True, slots=True)
class SavingsCounts:
    """Counters of the operator: joules by lever and bound, and unknown seconds, of the clock."""

    joules: Mapping[tuple[str, str], float]
    unknown_s: Mapping[str, float]


def counted_in(metrics: str) -> SavingsCounts:
    """Return the counters in the text of /metrics."""
    joules: dict[tuple[str, str], float] = {}
    unknown_s: dict[str, float] = {}
    signs = {"joulie_saved_joules_total": 1.0, "joulie_spent_joules_total": -1.0}
    for family in text_string_to_metric_families(metrics):
        for each in family.samples:
            if each.name in signs:
                key = each.labels["lever"], each.labels["bound"]
                joules[key] = joules.get(key, 0.0) + signs[each.name] * each.value
            elif each.name == "joulie_savings_unknown_seconds_total":
                unknown_s[each.labels["lever"]] = each.value
    return SavingsCounts(joules, unknown_s)


def difference(before: SavingsCounts, after: SavingsCounts) -> SavingsCounts:
    """Return what was counted between two times of one process."""
    return SavingsCounts(
        {key: value - before.joules[key] for key, value in after.joules.items()},
        {key: value - before.unknown_s[key] for key, value in after.unknown_s.items()},
    )
