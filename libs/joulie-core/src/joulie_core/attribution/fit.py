"""Watts per CPU second of each pod from many intervals: least squares within the band.

Tells pods apart only where their CPU times vary independently; pods that rise and fall together share their sum.
"""

from collections.abc import Sequence
from typing import Final

from joulie_core.attribution.cpus import PackagesInterval, WattsBand

#: Weight of the band's middle, as a share of a pod's own squared CPU seconds: decides only what the data leave open.
_PRIOR: Final = 1e-4
_SWEEPS: Final = 200
#: Change of a sweep, in watts, below which it has converged.
_SETTLED_WATTS: Final = 1e-9


def fitted_watts(intervals: Sequence[PackagesInterval], busy: WattsBand, idle: WattsBand) -> dict[str, float]:
    """Return watts per CPU second by pod, each within the band.

    Intervals without the node's CPU time are left out. The processes outside of pods count as one more pod.
    """
    usable = [interval for interval in intervals if interval.node_cpu_seconds is not None]
    columns: dict[str | None, list[float]] = {None: []}
    names = sorted({pod for interval in usable for pod in interval.pod_cpu_seconds})
    for name in names:
        columns[name] = [interval.pod_cpu_seconds.get(name) or 0.0 for interval in usable]
    for position, interval in enumerate(usable):
        pods = sum(column[position] for pod, column in columns.items() if pod is not None)
        columns[None].append(max(0.0, (interval.node_cpu_seconds or 0.0) - pods))
    weights = {pod: sum(s * s for s in column) for pod, column in columns.items()}
    # By CPU time and not by name, so that names change nothing.
    order = sorted((pod for pod in columns if weights[pod] > 0.0), key=lambda pod: -weights[pod])
    watts = dict.fromkeys(order, busy.middle)
    idle_watts = (idle.lowest + idle.highest) / 2.0
    left = [interval.joules - idle_watts * interval.seconds for interval in usable]
    for pod in order:
        left = [joules - watts[pod] * s for joules, s in zip(left, columns[pod], strict=True)]
    for _ in range(_SWEEPS):
        largest = 0.0
        for pod in order:
            column, weight = columns[pod], weights[pod]
            slope = sum(joules * s for joules, s in zip(left, column, strict=True))
            slope += _PRIOR * weight * (busy.middle - watts[pod])
            new = min(max(watts[pod] + slope / (weight * (1.0 + _PRIOR)), busy.lowest), busy.highest)
            change = new - watts[pod]
            watts[pod] = new
            left = [joules - change * s for joules, s in zip(left, column, strict=True)]
            largest = max(largest, abs(change))
        if largest < _SETTLED_WATTS:
            break
    return {pod: value for pod, value in watts.items() if pod is not None}
