"""The series about savings, exported by the leader.

Joules of times at which a bound is negative are spent, and not taken off those that were saved: counters only rise, and
the difference of both is what a lever has saved. Counters begin at 0 with the process.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.metrics_core import Metric

from joulie_api.metrics import counter, gauge
from joulie_core.savings import EstimateRange, Lever, LeverRate
from joulie_core.savings.ledger import LeverSums

_BOUNDS = ("lower", "middle", "upper")


class SavingsCounters:
    """Joules and seconds since the process began to lead."""

    def __init__(self) -> None:
        self._saved = {(lever, bound): 0.0 for lever in Lever for bound in _BOUNDS}
        self._spent = dict(self._saved)
        self._unknown_s: defaultdict[Lever, float] = defaultdict(float, dict.fromkeys(Lever, 0.0))

    def add(self, sums: LeverSums) -> None:
        """Count what was added to the ledger."""
        for lever, each in sums.items():
            self._unknown_s[lever] += each.unknown_s
            for bound, joules in _by_bound(each.joules):
                counted = self._saved if joules > 0 else self._spent
                counted[lever, bound] += abs(joules)

    def families(self, rates: Mapping[Lever, LeverRate]) -> Iterable[Metric]:
        """Return the series; a lever of which nothing is known now has no watts."""
        labels = ("lever", "bound")
        yield gauge(
            "joulie_saved_watts",
            "Watts that are saved now; below 0 where more is drawn than without the lever.",
            labels,
            (
                ((lever.value, bound), watts)
                for lever, rate in rates.items()
                if rate.unknown_share < 1.0
                for bound, watts in _by_bound(rate.watts)
            ),
        )
        for name, text, counts in (
            ("joulie_saved_joules_total", "Joules that were saved.", self._saved),
            ("joulie_spent_joules_total", "Joules that were drawn beyond what was without the lever.", self._spent),
        ):
            yield counter(name, text, labels, (((lever.value, bound), each) for (lever, bound), each in counts.items()))
        yield counter(
            "joulie_savings_unknown_seconds_total",
            "Time of which it is unknown what the lever saved.",
            ("lever",),
            (((lever.value,), each) for lever, each in self._unknown_s.items()),
        )


def _by_bound(found: EstimateRange) -> Iterator[tuple[str, float]]:
    return zip(_BOUNDS, (found.lower, found.middle, found.upper), strict=True)
