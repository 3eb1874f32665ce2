"""The holders of the node's GPUs as `status.devices` of its TelemetryProfile shows them, within its bounds."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from joulie_core.holders.held import HeldDevice, Holder
from joulie_core.kinds.held_devices import (
    MOST_REPORTED_DEVICES,
    MOST_REPORTED_HOLDERS,
    ClassLimitReport,
    DeviceReport,
    HolderClass,
    HolderReport,
)


def device_reports(
    held: Sequence[HeldDevice],
    watts_of: Mapping[str, float | None],
    before: Sequence[DeviceReport] = (),
    limits: Mapping[str, ClassLimitReport] = MappingProxyType({}),
) -> tuple[DeviceReport, ...]:
    """Return the reports of the first GPUs.

    Args:
        held: the GPUs and what holds them.
        watts_of: their power, by UUID.
        before: reports whose power is to stay, where they have the GPU.
        limits: the limit that each would have, by UUID; what moves with the load stays as the power does.
    """
    known = {each.uuid: each for each in before}
    return tuple(
        DeviceReport(
            uuid=each.uuid,
            index=each.index,
            held_as=each.held_as,
            reason=each.reason,
            message=each.message,
            holders=tuple(_holder(holder) for holder in each.holders[:MOST_REPORTED_HOLDERS]),
            holder_count=len(each.holders),
            watts=known[each.uuid].watts if each.uuid in known else _rounded(watts_of.get(each.uuid)),
            class_limit=_limit(limits.get(each.uuid), known.get(each.uuid)),
        )
        for each in held[:MOST_REPORTED_DEVICES]
    )


def _limit(found: ClassLimitReport | None, known: DeviceReport | None) -> ClassLimitReport | None:
    """Return the limit; with the earlier effect where the limit is the same and the power is not reported anew."""
    if found is None or known is None or known.class_limit is None:
        return found
    kept = found.model_copy(update={"now": known.class_limit.now})
    return kept if kept == known.class_limit else found


def _holder(holder: Holder) -> HolderReport:
    return HolderReport(
        namespace=holder.namespace,
        pod=holder.pod,
        container=holder.container,
        workload_class=HolderClass(holder.workload_class or HolderClass.UNKNOWN),
    )


def _rounded(watts: float | None) -> float | None:
    return None if watts is None else round(watts, 2)
