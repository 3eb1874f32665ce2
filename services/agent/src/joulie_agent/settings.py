"""Agent settings, read from environment variables at start.

Invalid settings stop the process with all faults listed.
"""

import re
from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from joulie_actuator.protocol import Epp
from joulie_api.checked_texts import HttpUrl, LabelSelector, NodeNameText
from joulie_api.setting_values import Unit
from joulie_api.settings import Addr, Duration, PositiveDuration, ServiceSettings
from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown
from joulie_core.control.dvfs import DvfsMode, DvfsSettings
from joulie_core.control.telemetry_route import Route
from joulie_core.kinds.telemetry_profile import (
    ControlType,
    CpuControl,
    CpuControlMode,
    GpuControl,
    HttpEndpoint,
    SourceType,
    TelemetrySource,
)
from joulie_core.labels import MANAGED

#: A StatefulSet names its pods with the ordinal last.
_ORDINAL: Final = re.compile(r"-(\d+)$")

_Watts = Annotated[float, Field(ge=0), Unit("W")]


class AgentMode(StrEnum):
    """Scope of one process: its own node, or the nodes of a pool."""

    DAEMONSET = "daemonset"
    POOL = "pool"


class HardwareAccess(StrEnum):
    """Access to the hardware of this machine."""

    ACTUATOR = "actuator"
    IN_PROCESS = "in-process"


class ClassLimits(StrEnum):
    """Handling of limits of GPUs by the class of their holders."""

    OFF = "Off"
    SHADOW = "Shadow"
    ENFORCE = "Enforce"


class PowerBudgets(StrEnum):
    """Handling of NodePowerBudgets."""

    OFF = "Off"
    ON = "On"


class EnvSource(StrEnum):
    """Sources that can be set by environment variables."""

    NONE = "none"
    HOST = "host"
    HTTP = "http"


class AgentSettings(ServiceSettings):
    """Settings of the agent."""

    metrics_addr: Addr = ":8080"
    """Address of /metrics, /healthz and /readyz; port 0 takes a free port, which the log names."""

    agent_mode: AgentMode = AgentMode.DAEMONSET
    """`daemonset`: the node of NODE_NAME, by its own hardware or by HTTP; `pool`: a shard of the nodes that
    POOL_NODE_SELECTOR matches, by HTTP only."""

    node_name: NodeNameText = ""
    """The node this pod runs on; required in daemonset mode, where the pod template takes it from `spec.nodeName`."""

    pool_node_selector: LabelSelector = f"{MANAGED}=true"
    """Label selector of the nodes that a pool serves, in Kubernetes' own grammar."""

    pool_shards: Annotated[int, Field(ge=1)] = 1
    """Number of pool agents that share the nodes. It must be the same in all of them, or nodes are served twice or not
    at all."""

    pool_shard_id: Annotated[int, Field(ge=0)] | None = None
    """This agent's shard, from 0; unset takes the ordinal at the end of POD_NAME, and 0 with a single shard."""

    pod_name: str = ""
    """Name of this pod; read only for its ordinal."""

    pod_namespace: str = "joulie-system"
    """Namespace of the Secrets named by `headersSecretRef`."""

    reconcile_interval: PositiveDuration = 20.0
    """How often each node is enforced and reported without a change. Changes are acted on at once, so this is the
    period of the power readings and reports, and how soon a backend that lost its cap gets it again."""

    spec_read_timeout: PositiveDuration = 300.0
    """How long a published target is kept without contact with the API server; then `spec.policy.onLostControl` of the
    target applies. Longer than a restart of the API server."""

    hardware_access: HardwareAccess = HardwareAccess.ACTUATOR
    """How the hardware of this machine is reached: through the `actuator` process, or `in-process`, for development,
    which needs root."""

    actuator_socket: str = "/run/joulie/actuator.sock"
    """Socket of the actuator."""

    holders_socket: str = ""
    """Socket of `joulie-agent holders` of this pod, which asks the kubelet; unset does not follow which pods hold the
    GPUs of this machine. Only while AGENT_MODE is daemonset."""

    device_processes: bool = False
    """Look for processes outside of pods that use the GPUs of this machine, by the drivers' lists; see docs/holders.md.
    Needs HOLDERS_SOCKET, and an actuator in the PID namespace of the machine. Off by default, since that takes the
    chart's `hostPID`."""

    energy_by_pod: bool = False
    """Add up the energy of this machine by pod and serve it as metrics; see docs/energy-by-pod.md. Off by default,
    since it takes the right to read all pods. Only while AGENT_MODE is daemonset."""

    host_cgroup_root: str = "/host-cgroup"
    """Mount point of the node's /sys/fs/cgroup, for the CPU time of pods, if ENERGY_BY_POD is set."""

    energy_receipts: bool = False
    """Create an Event about each pod that has ended, with its energy; see docs/energy-by-pod.md. Needs ENERGY_BY_POD.
    Off by default, since it takes the right to create Events, and is a write for each pod."""

    class_limits: ClassLimits | None = None
    """Limits of GPUs by the class of their holders: `Shadow` computes and shows what they would be and sets nothing;
    `Enforce` also sets those of clocks, where the owners of all pods on the GPU consent; `Off` does neither. Both need
    HOLDERS_SOCKET. Unset is Shadow where HOLDERS_SOCKET is set, else Off."""

    default_max_slowdown: AllowedSlowdown = AllowedSlowdown.NONE
    """Slowdown that standard pods allow where neither they nor their Namespace have the annotation
    `joulie.io/max-slowdown`. With 0 % their GPUs have no limit."""

    default_slowdown_is_consent: bool = False
    """Take DEFAULT_MAX_SLOWDOWN for the consent of the owners of pods, so that CLASS_LIMITS=Enforce limits their GPUs
    without the annotation. Off by default: then it is shown only."""

    start_hook_socket: str = ""
    """Socket of `joulie-containers start-hook` of this pod, which the container runtime asks before it creates a
    container: limits that CLASS_LIMITS=Enforce has set are lifted before a pod without consent starts. Unset, they are
    lifted by polling. Off by default, since such a plugin may change containers."""

    power_budgets: PowerBudgets = PowerBudgets.OFF
    """`On`: the limits of NodePowerBudgets are put in force: docs/power-budgets.md. Off by default, since it lowers
    what nodes may draw, and takes the right to read these objects and to write their status."""

    state_dir: str = "/var/lib/joulie"
    """Directory of the journals of originals, if HARDWARE_ACCESS is `in-process`."""

    host_sys_root: str = "/host-sys"
    """Mount point of the node's /sys, if HARDWARE_ACCESS is `in-process`."""

    host_proc_root: str = "/proc"
    """Path of the node's /proc, if HARDWARE_ACCESS is `in-process`."""

    simulate_only: bool = False
    """Do not touch this machine: host controls are reported as blocked. HTTP backends are used as usual."""

    dvfs_ema_alpha: Annotated[float, Field(gt=0, le=1)] = 0.3
    """Weight of the newest power sample in the moving average."""

    dvfs_high_margin_w: _Watts = 10.0
    """Watts above the cap before the loop throttles: wide enough that noise does not."""

    dvfs_low_margin_w: _Watts = 15.0
    """Watts below the cap before a throttle is eased; wider than the other margin, so easing does not overshoot."""

    dvfs_trip_count: Annotated[int, Field(ge=1)] = 2
    """Consecutive samples beyond a margin that trigger one step."""

    dvfs_cooldown: Annotated[Duration, Field(ge=0)] = 20.0
    """Minimum time between two steps: a step must show in the power before the next one."""

    dvfs_step_pct: Annotated[float, Field(gt=0, le=100), Unit("%")] = 10.0
    """Share of the frequency policies that one step throttles or frees in mode `stepped`, or if the power range is not
    known, or without a reading."""

    dvfs_mode: DvfsMode = DvfsMode.PROPORTIONAL
    """Size of a step: `stepped` takes DVFS_STEP_PCT each time, `proportional` the distance from the cap as a share of
    the maximum power, which reaches the cap in one or two steps. Margins, trip count and cooldown hold for both."""

    dvfs_max_step_pct: Annotated[float, Field(gt=0, le=100), Unit("%")] = 50.0
    """Largest step in mode `proportional`: a single wrong reading should not stop a node."""

    dvfs_interval: Annotated[Duration, Field(ge=0.2)] = 2.0
    """Sampling interval of the DVFS loop while it holds the power, independent of RECONCILE_INTERVAL; with the trip
    count, it sets the reaction time to a rising load. Only changes of the throttle are sent. Power from Prometheus is
    sampled at the reconcile interval, since Prometheus returns its last scrape."""

    dvfs_blind_after: Annotated[Duration, Field(ge=0)] = 180.0
    """How long the DVFS loop keeps its throttle without a power reading. Then it raises the throttle by DVFS_STEP_PCT
    per cooldown, up to the cap's share of the maximum power, or to 100 % if no maximum is known: the power of a node
    without readings is unknown. Long enough for a restart of a backend or an actuator."""

    dvfs_min_freq_khz: Annotated[int, Field(gt=0), Unit("kHz")] = 1_500_000
    """Maximum frequency of a throttled policy on the host, raised to the minimum of its hardware."""

    gpu_clock_fallback: bool = True
    """Limit the graphics clock of a GPU of this machine whose power stays above its cap because its power limit is
    missing, refused or not kept. On by default, since the cap would otherwise not hold. Turn it off where
    administrators lock clocks: NVIDIA's driver does not report a lock, so it would be undone."""

    eco_energy_performance_preference: Epp | None = None
    """Energy performance preference of the host's CPUs while the node's profile is eco; unset leaves it unmanaged. Off
    by default: it slows down how fast clocks rise, which a power cap does not, and its effect is in no power model."""

    eco_uncore_max_freq_mhz: Annotated[int, Field(ge=0, le=10_000), Unit("MHz")] = 0
    """Upper limit of the uncore frequency of the host's Intel CPUs while the node's profile is eco; 0 leaves it
    unmanaged. Off by default: it costs memory bandwidth, which a cap in watts does not show."""

    telemetry_cpu_source: EnvSource = EnvSource.HOST
    """Source of CPU power of nodes without a TelemetryProfile; with `http`, the same answer is read for GPU power."""

    telemetry_cpu_http_endpoint: HttpUrl = ""
    """For source `http`: an address, or a URL with `{node}`, such as http://backend:18080/telemetry/{node}."""

    telemetry_cpu_control: ControlType = ControlType.HOST
    """Backend of CPU controls of nodes without a TelemetryProfile."""

    telemetry_cpu_control_http_endpoint: HttpUrl = ""
    """For control `http`: an address, or a URL with `{node}`, such as http://backend:18080/control/{node}."""

    telemetry_cpu_control_mode: CpuControlMode = CpuControlMode.AUTO
    """`rapl` never throttles, `dvfs` never caps, `auto` prefers the cap."""

    telemetry_gpu_control: ControlType = ControlType.HOST
    """Backend of GPU controls of nodes without a TelemetryProfile."""

    telemetry_gpu_control_http_endpoint: HttpUrl = ""
    """For control `http`, as for the CPU controls."""

    telemetry_http_timeout_seconds: Annotated[int, Field(ge=1, le=300), Unit("s")] = 5
    """Time limit of one HTTP request to the endpoints above; a TelemetryProfile has its own."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        faults = []
        if self.agent_mode is AgentMode.DAEMONSET and not self.node_name:
            faults.append("NODE_NAME is required while AGENT_MODE is daemonset")
        if self.agent_mode is AgentMode.POOL and self.holders_socket:
            faults.append("HOLDERS_SOCKET is for AGENT_MODE daemonset: a pool agent follows no GPU of its machine")
        if self.agent_mode is AgentMode.POOL and self.energy_by_pod:
            faults.append("ENERGY_BY_POD is for AGENT_MODE daemonset: a pool agent reads no counter of its machine")
        if self.device_processes and not self.holders_socket:
            faults.append("DEVICE_PROCESSES is set and HOLDERS_SOCKET is not: holders of GPUs are not followed")
        if self.energy_receipts and not self.energy_by_pod:
            faults.append("ENERGY_RECEIPTS is set and ENERGY_BY_POD is not: there is no energy to write receipts of")
        faults += self._class_limit_faults()
        if self.agent_mode is AgentMode.POOL:
            faults += self._shard_faults()
        for kind, kind_name, endpoint_name in (
            (self.telemetry_cpu_source, "TELEMETRY_CPU_SOURCE", "telemetry_cpu_http_endpoint"),
            (self.telemetry_cpu_control, "TELEMETRY_CPU_CONTROL", "telemetry_cpu_control_http_endpoint"),
            (self.telemetry_gpu_control, "TELEMETRY_GPU_CONTROL", "telemetry_gpu_control_http_endpoint"),
        ):
            if kind == "http" and not getattr(self, endpoint_name):
                faults.append(f"{endpoint_name.upper()} is required while {kind_name} is http")
        if faults:
            raise ValueError("; ".join(faults))
        return self

    def _class_limit_faults(self) -> list[str]:
        if self.class_limits in (ClassLimits.SHADOW, ClassLimits.ENFORCE) and not self.holders_socket:
            need = "HOLDERS_SOCKET is not set: no GPU is known to be a standard pod's."
            way_out = "Set agent.holders.enabled of the chart, or CLASS_LIMITS to Off"
            return [f"CLASS_LIMITS is {self.class_limits} and {need} {way_out}"]
        if self.start_hook_socket and self.class_limits is not ClassLimits.ENFORCE:
            return ["START_HOOK_SOCKET is set and CLASS_LIMITS is not Enforce: there is no limit to lift"]
        if self.class_limits is ClassLimits.ENFORCE and not self.gpu_clock_fallback:
            return [
                "CLASS_LIMITS is Enforce and GPU_CLOCK_FALLBACK is off: clocks that administrators lock would be undone"
            ]
        return []

    @property
    def shows_class_limits(self) -> bool:
        """Whether limits of GPUs by the class of their holders are computed and shown."""
        return bool(self.holders_socket) and self.class_limits is not ClassLimits.OFF

    def _shard_faults(self) -> list[str]:
        if self.shard_id is None:
            return [f"POOL_SHARD_ID is not set and POD_NAME {self.pod_name!r} ends in no ordinal"]
        if self.shard_id >= self.pool_shards:
            return [f"shard {self.shard_id} does not exist among POOL_SHARDS={self.pool_shards}"]
        return []

    @property
    def shard_id(self) -> int | None:
        """This agent's shard; None if unknown."""
        if self.pool_shard_id is not None:
            return self.pool_shard_id
        if self.pool_shards == 1:
            return 0
        ordinal = _ORDINAL.search(self.pod_name)
        return int(ordinal[1]) if ordinal else None

    @property
    def dvfs(self) -> DvfsSettings:
        """Tunables of the DVFS loop."""
        return DvfsSettings(
            ema_alpha=self.dvfs_ema_alpha,
            high_margin_watts=self.dvfs_high_margin_w,
            low_margin_watts=self.dvfs_low_margin_w,
            trip_count=self.dvfs_trip_count,
            cooldown_s=self.dvfs_cooldown,
            step_pct=self.dvfs_step_pct,
            mode=self.dvfs_mode,
            max_step_pct=self.dvfs_max_step_pct,
            blind_after_s=self.dvfs_blind_after,
        )

    @property
    def default_route(self) -> Route:
        """Route of nodes that no TelemetryProfile applies to."""
        source = TelemetrySource(
            type=SourceType(self.telemetry_cpu_source), http=self._endpoint(self.telemetry_cpu_http_endpoint)
        )
        cpu_control = CpuControl(
            type=self.telemetry_cpu_control,
            mode=self.telemetry_cpu_control_mode,
            http=self._endpoint(self.telemetry_cpu_control_http_endpoint),
        )
        gpu_control = GpuControl(
            type=self.telemetry_gpu_control, http=self._endpoint(self.telemetry_gpu_control_http_endpoint)
        )
        return Route(cpu_source=source, gpu_source=source, cpu_control=cpu_control, gpu_control=gpu_control)

    def _endpoint(self, endpoint: str) -> HttpEndpoint | None:
        if not endpoint:
            return None
        return HttpEndpoint(endpoint=endpoint, timeout_seconds=self.telemetry_http_timeout_seconds)
