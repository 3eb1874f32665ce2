"""What the operator can be told by its environment.

The settings of every policy are part of the model, whichever is selected: one reading, all errors at once. Source:
contracts, section 4; operator document.
"""

from enum import StrEnum
from typing import Annotated, Self, cast

from pydantic import AfterValidator, Field, create_model, model_validator

from joulie_api.settings import Addr, Duration, ServiceSettings
from joulie_core import labels
from joulie_core.caps import CapSettings
from joulie_core.gpu_vendors import GPU_PRODUCT_KEYS
from joulie_core.kinds.base import PositiveWatts
from joulie_core.kinds.node_power_profile import OnLostControl
from joulie_core.policy import POLICIES
from joulie_core.twin.stress import DEFAULT_RACK_CAPACITY_W


class NodePowerSource(StrEnum):
    """Who measures nodes, before the agents and the model are asked."""

    AUTO = "auto"
    HTTP = "http"
    PROMETHEUS = "prometheus"
    KEPLER = "kepler"


def _known_policy(name: str) -> str:
    if name not in POLICIES:
        raise ValueError(f"no such policy; there are {', '.join(POLICIES)}")
    return name


NonNegative = Annotated[float, Field(ge=0)]
PositiveDuration = Annotated[Duration, Field(gt=0)]


class PowerSettings(ServiceSettings):
    """Where power readings and facility figures come from."""

    operator_node_power_source: NodePowerSource = NodePowerSource.AUTO
    """Who measures nodes first. `auto`: the agents' own readings. Where the source has no answer the agents are asked,
    then the model from pod requests."""
    operator_node_power_http_endpoint: str = ""
    """URL of a node's telemetry for the source `http`; `{node}` is replaced by the node's name."""
    operator_node_power_prometheus_address: str = ""
    """Base URL of Prometheus for the sources `prometheus` and `kepler`."""
    operator_node_power_prometheus_query: str = ""
    """PromQL answering watts per node; required for `prometheus`. For `kepler` the default: the rate of its joules."""
    operator_node_power_poll_interval: PositiveDuration = 15
    """How often the source is asked; a trend needs several samples in its five minutes."""
    operator_node_power_max_age: PositiveDuration = 180
    """Age up to which a reading counts: several report intervals of an agent, less than the age of a stale twin."""
    device_class_gpus_json: dict[str, NonNegative] = Field(default_factory=dict)
    """GPUs that a device of a DRA device class counts as where power is modelled from pod requests, by class:
    {"small-mig": 0.25, "nic": 0}. The classes of NVIDIA's, AMD's and Intel's drivers are known; any other counts as a
    whole GPU for each device, as a node must not look freer than it is."""
    enable_facility_metrics: bool = False
    """Ask Prometheus for the facility's figures, and compute the PUE from them."""
    facility_prometheus_address: str = ""
    """Base URL of Prometheus for facility metrics."""
    facility_poll_interval: PositiveDuration = 30
    """How often facility metrics are asked for; rooms change slowly."""
    facility_max_age: PositiveDuration = 300
    """Age up to which the last good figure stands in for one that cannot be had."""
    facility_ambient_temp_metric: str = ""
    """PromQL answering the ambient temperature in degrees Celsius; empty: not asked."""
    facility_it_power_metric: str = ""
    """PromQL answering the IT power in watts; empty: not asked."""
    facility_cooling_power_metric: str = ""
    """PromQL answering the cooling power in watts; empty: not asked."""
    facility_zone_ambient_metric_template: str = ""
    """PromQL answering a cooling zone's temperature; `{zone}` is the node's label joulie.io/cooling-zone."""
    facility_rack_power_metric_template: str = ""
    """PromQL answering a rack's draw in watts; `{rack}` is the node's label joulie.io/rack."""
    rack_capacity_watts: PositiveWatts = DEFAULT_RACK_CAPACITY_W
    """Watts that a rack can be fed with."""
    rack_capacity_json: dict[str, PositiveWatts] = Field(default_factory=dict)
    """Watts by rack label where they differ: {"rack-7": 30000}."""

    @model_validator(mode="after")
    def _sources_complete(self) -> Self:
        missing = [name.upper() for name in self._needed() if not getattr(self, name)]
        if missing:
            raise ValueError(f"{' and '.join(missing)} must be set for the sources that were chosen")
        return self

    def _needed(self) -> list[str]:
        needed = ["facility_prometheus_address"] if self.enable_facility_metrics else []
        match self.operator_node_power_source:
            case NodePowerSource.HTTP:
                needed += ["operator_node_power_http_endpoint"]
            case NodePowerSource.PROMETHEUS:
                needed += ["operator_node_power_prometheus_address", "operator_node_power_prometheus_query"]
            case NodePowerSource.KEPLER:
                needed += ["operator_node_power_prometheus_address"]
            case NodePowerSource.AUTO:
                pass
        return needed


class OperatorSettings(PowerSettings, CapSettings):
    """All of the operator's settings but those of the policies."""

    metrics_addr: Addr = ":8081"
    """Where /metrics, /healthz and /readyz are served; port 0 takes a free one, which the log names."""
    node_selector: str = f"{labels.MANAGED}=true"
    """Label selector of the nodes under management."""
    reserved_label_key: str = labels.RESERVED
    """Label whose value `true` takes a node out of management while it stays in the selection."""
    policy_type: Annotated[str, AfterValidator(_known_policy)] = "static_partition"
    """The planning policy."""
    reconcile_interval: PositiveDuration = 60
    """At least so often everything is planned and compared; changes are followed within PLAN_DEBOUNCE anyway."""
    on_lost_control: OnLostControl = OnLostControl.RESTORE
    """What an agent does that cannot refresh its target for SPEC_READ_TIMEOUT: give the hardware back, hold the last
    caps, or go to the lowest cap. Giving back, since a cap must not outlive whoever answers for it."""
    plan_debounce: Duration = 0.5
    """Changes within this time share one plan; well below the two seconds in which labels are to follow a pod."""
    downgrade_settle: Duration = 1
    """How long a node is announced as eco before its caps come, so that a pod placed by the older label is seen."""
    twin_interval: PositiveDuration = 10
    """How often the twins' numbers are computed; also the least time between writes of one twin for numbers only."""
    twin_heartbeat: PositiveDuration = 90
    """A twin is written at least so often; well below the five minutes after which it counts as stale."""
    gpu_product_label_keys: tuple[str, ...] = GPU_PRODUCT_KEYS
    """Labels that name a node's GPU model, most trusted first."""
    write_concurrency: Annotated[int, Field(ge=1, le=256)] = 16
    """Writes under way at once."""
    events_per_second: Annotated[float, Field(gt=0, le=1000)] = 50
    """Kubernetes Events written at most so often; those of a cluster that changes at once follow one after another."""
    pod_name: str = ""
    """Name of this process in the lease; empty: the host's name."""
    pod_namespace: str = "joulie-system"
    """Namespace that the process runs in."""
    operator_namespace: str = ""
    """Namespace of the lease; empty: POD_NAMESPACE."""
    lease_duration: PositiveDuration = 12
    """How long a lease holds without renewal; another replica takes over after it and two retry periods."""
    lease_renew_deadline: PositiveDuration = 8
    """How long renewal may fail before leadership is given up."""
    lease_retry_period: PositiveDuration = 2
    """How often the lease is tried."""

    @property
    def lease_namespace(self) -> str:
        """Namespace of the lease."""
        return self.operator_namespace or self.pod_namespace

    @model_validator(mode="after")
    def _times_in_order(self) -> Self:
        if not self.lease_duration > self.lease_renew_deadline > self.lease_retry_period:
            raise ValueError("LEASE_DURATION must be above LEASE_RENEW_DEADLINE, and that above LEASE_RETRY_PERIOD")
        if self.twin_heartbeat < self.twin_interval:
            raise ValueError("TWIN_HEARTBEAT must not be below TWIN_INTERVAL")
        return self


def settings_model() -> type[OperatorSettings]:
    """Return the whole model: the operator's settings and those of every registered policy."""
    policies = tuple(entry.settings for entry in POLICIES.values())
    return cast("type[OperatorSettings]", create_model("Settings", __base__=(OperatorSettings, *policies)))
