"""Simulated nodes as JSON: the telemetry answer, and the whole state.

Hardware facts have the field names of NodeHardware, so that an agent can use them unchanged. Caps are per package and
per GPU; `packagePowerWatts` is the sum over the node's packages and `gpu.powerWatts` over its GPUs.
Protocol: docs/decisions/0013-conventions.md, "HTTP backend".
"""

from typing import Any

from joulie_core.kinds.node_hardware import CpuCapRange, CpuHardware, GpuCapRange, GpuDevice, GpuHardware
from joulie_sim.physics.node import SimulatedNode
from joulie_sim.physics.operation import effective_cpu_cap, effective_gpu_cap
from joulie_sim.physics.parts import CpuPart, GpuPart
from joulie_sim.server.control import control_state
from joulie_sim.server.ledger import WorkLedger
from joulie_sim.server.simulator import Simulator


def telemetry(node: SimulatedNode, *, written_at: str) -> dict[str, Any]:
    """Return the answer to GET /telemetry/{node}; `written_at` is the wall time, RFC 3339."""
    answer: dict[str, Any] = {
        "node": node.name,
        "ts": written_at,
        "memory": {"totalBytes": node.hardware.memory_bytes},
        "energyJoules": node.energy.joules,
    }
    if node.hardware.cpu is not None:
        answer["packagePowerWatts"] = node.point.cpu_watts
        answer["cpu"] = _cpu(node, node.hardware.cpu)
    if node.hardware.gpu is not None:
        answer["gpu"] = _gpu(node, node.hardware.gpu)
    return answer


def node_state(node: SimulatedNode, *, node_class: str) -> dict[str, Any]:
    """Return one node of the answer to GET /state."""
    return {
        "class": node_class,
        "watts": node.point.watts,
        "cpuWatts": node.point.cpu_watts,
        "gpuWatts": node.point.total_gpu_watts,
        "capWatts": cap_watts(node),
        "controls": control_state(node.hardware, node.controls),
        "cpuUtilization": node.point.cpu_utilization,
        "cpuSpeed": node.point.cpu_speed,
        "gpuSpeed": node.point.gpu_speed,
        "energyJoules": node.energy.joules,
        "jobs": [
            {
                "pod": job.request.key,
                "gpus": job.load.gpus,
                "workPerSecond": job.work_per_s,
                "doneSeconds": job.done_s,
                "workSeconds": job.request.work_s,
            }
            for job in node.jobs
        ],
    }


def cluster_state(simulator: Simulator, *, speed: float) -> dict[str, Any]:
    """Return the answer to GET /state."""
    read = list(simulator.read_all())
    nodes = {node.name: node_state(node, node_class=simulator.energy.class_of(node.name)) for node in read}
    return {
        "speed": speed,
        # The time up to which the joules are integrated.
        "simulatedSeconds": max((node.now_s for node in read), default=simulator.now_s),
        "watts": sum(node["watts"] for node in nodes.values()),
        "energyJoulesByClass": {node_class.value: joules for node_class, joules in simulator.energy.joules.items()},
        "completed": {workload.value: _work(ledger) for workload, ledger in simulator.work.items()},
        "nodes": nodes,
    }


def cap_watts(node: SimulatedNode) -> float:
    """Return the sum of the caps of all packages and GPUs of a node."""
    total = 0.0
    if node.hardware.cpu is not None:
        total += node.hardware.cpu.sockets * effective_cpu_cap(node.hardware.cpu, node.controls)
    if node.hardware.gpu is not None:
        total += node.hardware.gpu.count * effective_gpu_cap(node.hardware.gpu, node.controls)
    return total


def _work(ledger: WorkLedger) -> dict[str, Any]:
    return {"pods": ledger.jobs, "workSeconds": ledger.work_s, "meanSlowdown": ledger.mean_slowdown}


def _cpu(node: SimulatedNode, cpu: CpuPart) -> dict[str, Any]:
    cap = effective_cpu_cap(cpu, node.controls)
    facts = CpuHardware(
        raw_model=cpu.model,
        model=cpu.model,
        vendor=cpu.vendor,
        sockets=cpu.sockets,
        total_cores=cpu.physical_cores,
        cores_per_socket=cpu.physical_cores // cpu.sockets,
        cap_range=CpuCapRange(min_watts_per_socket=cpu.min_cap_watts, max_watts_per_socket=cpu.max_cap_watts),
        control_available=True,
        telemetry_available=True,
    )
    return {
        **facts.model_dump(by_alias=True, mode="json", exclude_none=True),
        "packagePowerWatts": node.point.cpu_watts,
        "packages": [
            {"package": index, "powerWatts": node.point.package_watts, "capWatts": cap} for index in range(cpu.sockets)
        ],
        "capWatts": cap,
        "throttlePct": node.controls.throttle_pct,
        "utilization": node.point.cpu_utilization,
        "relativePerformance": node.point.cpu_speed,
        "energyJoules": node.energy.cpu_joules,
    }


def _gpu(node: SimulatedNode, gpu: GpuPart) -> dict[str, Any]:
    cap = effective_gpu_cap(gpu, node.controls)
    facts = GpuHardware(
        present=True,
        raw_model=gpu.model,
        model=gpu.model,
        vendor=gpu.vendor,
        count=gpu.count,
        cap_range_per_gpu=GpuCapRange(
            min_watts=gpu.min_cap_watts, max_watts=gpu.max_cap_watts, default_watts=gpu.default_cap_watts
        ),
        current_cap_watts=cap,
        control_available=True,
        telemetry_available=True,
    )
    devices = [
        {
            **GpuDevice(
                uuid=f"GPU-{node.name}-{index}",
                index=index,
                model=gpu.model,
                min=gpu.min_cap_watts,
                max=gpu.max_cap_watts,
                default=gpu.default_cap_watts,
            ).model_dump(by_alias=True, mode="json"),
            "powerWatts": watts,
            "capWatts": cap,
            "utilization": node.point.gpu_utilizations[index],
        }
        for index, watts in enumerate(node.point.gpu_watts)
    ]
    return {
        **facts.model_dump(by_alias=True, mode="json", exclude_none=True),
        "powerWatts": node.point.total_gpu_watts,
        "capWattsPerGpu": cap,
        "relativePerformance": node.point.gpu_speed,
        "energyJoules": node.energy.gpu_joules,
        "devices": devices,
    }
