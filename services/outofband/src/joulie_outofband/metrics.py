"""Metrics of the out-of-band service. Per-node series exist while the NodeBMC does."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import Metric

from joulie_api.apply import WriteResult
from joulie_api.metrics import gauge
from joulie_core.kinds import NodeBMCStatus
from joulie_core.kinds.base import ConditionStatus
from joulie_core.kinds.node_bmc import PowerState

#: From a fast BMC to one that takes seconds for each request.
_BUCKETS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 90)


class BmcAction(StrEnum):
    """Action written to a BMC."""

    RESET = "reset"
    CAP = "cap"
    RESTORE = "restore"


class OutOfBandMetrics:
    """Metrics of all BMCs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._passes = Histogram(
            "joulie_outofband_pass_duration_seconds",
            "Time of one pass over a BMC, by the reason of its end.",
            ("reason",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._actions = Counter(
            "joulie_outofband_actions",
            "Requests that change something at a BMC.",
            ("action", "result"),
            registry=registry,
        )
        self._writes = Counter(
            "joulie_outofband_writes", "Intended writes by their result.", ("kind", "result"), registry=registry
        )

    def on_pass(self, reason: str, duration_s: float) -> None:
        """Count a pass."""
        self._passes.labels(reason).observe(duration_s)

    def on_action(self, action: BmcAction, *, done: bool) -> None:
        """Count a request that changes something."""
        self._actions.labels(action, "done" if done else "failed").inc()

    def on_write(self, kind: str, result: WriteResult) -> None:
        """Count an intended write to the API server."""
        self._writes.labels(kind, result).inc()


@dataclass(frozen=True, slots=True)
class BmcSeries:
    """Values shown of one BMC; `cap_overdue` None: no cap of this service's is at the BMC."""

    status: NodeBMCStatus
    cap_overdue: bool | None
    #: Whether the operator requests the server off.
    put_to_sleep: bool = False


def families(bmcs: Callable[[], Mapping[str, BmcSeries]]) -> Iterable[Metric]:
    """Return the series of all nodes."""
    shown = bmcs()
    found = {name: each.status for name, each in shown.items()}
    yield gauge(
        "joulie_bmc_power_watts",
        "Power of the whole server, as its BMC measures it.",
        ("node",),
        (((name,), status.power_watts) for name, status in found.items()),
    )
    yield gauge(
        "joulie_bmc_reachable",
        "1 if the BMC answered the last pass, 0 if not; no sample for Wake-on-LAN, which never answers.",
        ("node",),
        (((name,), _reachable(status)) for name, status in found.items()),
    )
    yield gauge(
        "joulie_bmc_power_on",
        "1 if the server is on, 0 if it is off; no sample in between and if unknown.",
        ("node",),
        (((name,), _POWER.get(status.power_state)) for name, status in found.items()),
    )
    yield gauge(
        "joulie_bmc_put_to_sleep",
        "1 while the operator requests the server off, whether it is off yet or not; 0 if it does not.",
        ("node",),
        (((name,), float(each.put_to_sleep)) for name, each in shown.items()),
    )
    yield gauge(
        "joulie_bmc_boot_seconds",
        "95th percentile of the last boots, from the request to the node's readiness.",
        ("node",),
        (((name,), status.boot_seconds) for name, status in found.items()),
    )
    yield gauge(
        "joulie_bmc_cap_watts",
        "Cap of the whole server that was written to the BMC.",
        ("node",),
        (((name,), status.cap.requested_watts if status.cap else None) for name, status in found.items()),
    )
    yield gauge(
        "joulie_bmc_cap_overdue",
        "1 if the cap at the BMC has ended or is not requested any more, 0 if it is; no sample without a cap.",
        ("node",),
        (((name,), _number(each.cap_overdue)) for name, each in shown.items()),
    )
    yield gauge(
        "joulie_bmc_condition",
        "1 for the status and the reason of each condition of the NodeBMC.",
        ("node", "condition", "status", "reason"),
        (
            ((name, each.type, each.status.value, each.reason), 1.0)
            for name, status in found.items()
            for each in status.conditions
        ),
    )


_POWER: Final = {PowerState.ON: 1.0, PowerState.OFF: 0.0}


def _number(flag: bool | None) -> float | None:  # noqa: FBT001 - a value, not an option
    return None if flag is None else float(flag)


def _reachable(status: NodeBMCStatus) -> float | None:
    found = next((each.status for each in status.conditions if each.type == "Reachable"), None)
    return None if found in {None, ConditionStatus.UNKNOWN} else float(found is ConditionStatus.TRUE)
