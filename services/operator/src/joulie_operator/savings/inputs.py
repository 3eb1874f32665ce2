"""Values of the estimate, from what the operator watches. What is not seen, or too old, is unknown."""

from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_core import labels
from joulie_core.control_result import ControlResult
from joulie_core.hardware.power_curve import interpolate
from joulie_core.kinds.node_twin import ServerMeasurement
from joulie_core.kinds.telemetry_profile import ControlReport, TelemetryProfileStatus
from joulie_core.node import Node
from joulie_core.power.curves import NodeCurves, node_curves
from joulie_core.powerest.marginal import CPU_USE, GPU_USE_STANDARD
from joulie_core.quantity import QuantityError, parse_quantity
from joulie_core.savings.asleep import SleepingServer
from joulie_core.savings.capped import CappedDevices
from joulie_core.savings.estimator import CappedNode
from joulie_core.savings.node_loads import load_model
from joulie_core.savings.shadow_nodes import ShadowNode, ShadowPod
from joulie_core.sleep_state import SleepState
from joulie_core.timestamps import age_seconds, epoch_seconds
from joulie_operator.cluster import Eligibility, ManagedHardware, PodLoad
from joulie_operator.pods import PodSummary

_REGION, _ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
#: A limit from this share of the highest on is none.
_NO_CAP: Final = 0.999
#: Bands of the exponents of the law of caps, docs/models.md.
_CPU_EXPONENTS: Final = (0.4, 0.6)
_GPU_EXPONENTS: Final = (0.15, 0.31)


class _SleepRecord(msgspec.Struct, rename="camel", forbid_unknown_fields=False):
    state: SleepState
    since: float
    idle_watts: Annotated[float, msgspec.Meta(ge=0)] | None = None
    idle_measured: bool = False


_RECORDS: Final = msgspec.json.Decoder(_SleepRecord)


@dataclass(frozen=True, slots=True)
class CapReport:
    """Report of the agent of one node, with the hardware and load that it is judged by."""

    status: TelemetryProfileStatus
    hardware: ManagedHardware
    load: PodLoad


def shadow_node(node: Node, hardware: ManagedHardware | None, eligibility: Eligibility) -> ShadowNode | None:
    """Return a node of the shadow; None of one that is not managed, or whose resources cannot be read."""
    if eligibility is Eligibility.UNMANAGED:
        return None
    try:
        cpu, memory, pods = (float(parse_quantity(node.allocatable[key])) for key in ("cpu", "memory", "pods"))
    except (QuantityError, KeyError):
        return None
    if cpu <= 0.0 or memory <= 0.0:
        return None
    view = hardware.view if hardware is not None else None
    gpu, units = (view.gpu, hardware.gpu_units) if view is not None and hardware is not None else (None, 1.0)
    model = load_model(view, units) if view is not None else None
    return ShadowNode(
        name=node.name,
        cpu_milli=1_000.0 * cpu,
        memory_bytes=memory,
        pods=pods,
        gpus=gpu.count * units if gpu is not None else 0.0,
        gpu_kind=f"{gpu.vendor}/{units:g}" if gpu is not None else "",
        zone=f"{node.labels.get(_REGION, '')}/{node.labels.get(_ZONE, '')}",
        open=model is not None and not node.tainted and not node.unschedulable,
        model=model,
    )


def shadow_pod(pod: PodSummary) -> ShadowPod | None:
    """Return a pod of the shadow; None of one that waits for a node."""
    if pod.node is None:
        return None
    return ShadowPod(pod.node, 1_000.0 * pod.cpu_cores, pod.memory_bytes, pod.gpus, fixed=pod.constrained)


def sleeping_server(node: Node, measurement: ServerMeasurement | None) -> SleepingServer | None:
    """Return a node that may be asleep; None of one that is awake.

    A record that cannot be read is one of a node whose idle power is unknown. A reading from before the node came to
    its state says nothing about it.
    """
    if node.labels.get(labels.SLEEP_STATE) is None:
        return None
    text = node.annotations.get(labels.SLEEP_RECORD)
    try:
        record = decode(_RECORDS.decode, (text or "").encode(errors="replace"), "record")
    except DecodeError:
        return SleepingServer(SleepState.ASLEEP, None)
    sampled_s = epoch_seconds(measurement.sampled_at) if measurement is not None else None
    current = measurement is not None and sampled_s is not None and sampled_s > record.since
    drawn_watts = measurement.measured_server_power_w if measurement is not None and current else None
    return SleepingServer(record.state, record.idle_watts, record.idle_measured, drawn_watts)


def capped_node(report: CapReport, now_s: float, max_age_s: float) -> CappedNode | None:
    """Return the caps of a node; None of one that has none.

    Args:
        report: the agent's report.
        now_s: seconds since the epoch.
        max_age_s: age up to which a reading counts.
    """
    control, power = report.status.control, report.status.power
    curves = node_curves(report.hardware.view)
    if control is None or curves is None:
        return None
    fresh = power is not None and abs(age_seconds(power.updated_at or "", now_s)) <= max_age_s
    cpu_watts, gpu_watts = (power.cpu_watts, power.gpu_watts) if power is not None and fresh else (None, None)
    parts = [_cpus(control.cpu, curves, report, cpu_watts), _gpus(control.gpu, curves, report, gpu_watts)]
    found = [part for part in parts if part is not _NOT_CAPPED]
    return CappedNode(tuple(part if isinstance(part, CappedDevices) else None for part in found)) if found else None


_NOT_CAPPED: Final = object()


def _cpus(control: ControlReport | None, curves: NodeCurves, report: CapReport, drawn_watts: float | None) -> object:
    """Return the CPUs under their cap, None where a limit in force is unknown, `_NOT_CAPPED` without one."""
    cpu = report.hardware.view.cpu
    if control is None or cpu is None or control.result is not ControlResult.APPLIED:
        return _NOT_CAPPED
    if control.enforced_watts is None:
        # A throttle holds frequencies, and no watts that a law could be applied to.
        return None if control.throttle_pct else _NOT_CAPPED
    cap_watts = control.enforced_watts * cpu.sockets
    if cap_watts >= _NO_CAP * curves.cpu_max_watts:
        return _NOT_CAPPED
    used = CPU_USE * report.load.cpu_cores / curves.threads
    return CappedDevices(
        cap_watts=cap_watts,
        drawn_watts=drawn_watts,
        idle_watts=curves.packages_watts[0],
        natural_watts=interpolate(curves.packages_watts, used),
        most_watts=curves.packages_watts[-1],
        response=curves.cpu_response,
        exponents=_CPU_EXPONENTS,
    )


def _gpus(control: ControlReport | None, curves: NodeCurves, report: CapReport, drawn_watts: float | None) -> object:
    """Return the GPUs under their cap; as `_cpus`."""
    view, curve = report.hardware.view.gpu, curves.gpu
    if control is None or view is None or curve is None or control.result is not ControlResult.APPLIED:
        return _NOT_CAPPED
    if control.enforced_watts is None or control.enforced_watts >= _NO_CAP * curve.max_watts:
        return _NOT_CAPPED
    held = min(float(view.count), report.load.gpus / report.hardware.gpu_units)
    busy_watts = view.spec.curve.watts(GPU_USE_STANDARD, curve.max_watts)
    return CappedDevices(
        cap_watts=control.enforced_watts * view.count,
        drawn_watts=drawn_watts,
        idle_watts=curve.idle_watts * view.count,
        natural_watts=curve.idle_watts * (view.count - held) + busy_watts * held,
        most_watts=curve.natural_watts * view.count,
        response=curve.response,
        exponents=_GPU_EXPONENTS,
    )
