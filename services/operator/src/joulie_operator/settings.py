"""Operator settings, read from environment variables.

The settings of every policy are part of the model, whichever is selected, so that all errors are reported at once.
"""

import re
from enum import StrEnum
from typing import Annotated, Final, Self, cast

from pydantic import AfterValidator, Field, create_model, model_validator

from joulie_api.checked_texts import HttpUrl, LabelSelector
from joulie_api.elected import ElectedSettings
from joulie_api.settings import Addr, Duration, PositiveDuration, ServiceSettings
from joulie_core import labels
from joulie_core.caps import CapSettings
from joulie_core.class_caps.waiting import DEFAULT_RULE
from joulie_core.gpu_vendors import GPU_PRODUCT_KEYS
from joulie_core.kinds.base import PositiveWatts
from joulie_core.kinds.node_power_profile import OnLostControl
from joulie_core.policy import POLICIES
from joulie_core.twin.stress import DEFAULT_RACK_CAPACITY_WATTS

#: RFC 1123; as in the header Host without its port, which is compared in lower case.
_LABEL: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_HOST_NAME: Final = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*")


class NodePowerSource(StrEnum):
    """The first source of power readings, before the agents and the model."""

    AUTO = "auto"
    HTTP = "http"
    PROMETHEUS = "prometheus"
    KEPLER = "kepler"


class PowerDomainsMode(StrEnum):
    """Use of PowerDomain objects."""

    #: They are not read, and no node is limited: NodePowerBudgets that are left are deleted.
    OFF = "Off"
    #: They are read and their status is written; nothing is lowered.
    OBSERVE = "Observe"
    #: Nodes below trees of domains of mode Enforce are limited; other trees are observed.
    ENFORCE = "Enforce"


class PowerOversubscription(StrEnum):
    """Use of `oversubscription` of PowerDomain objects."""

    OFF = "Off"
    ON = "On"


def _known_policy(name: str) -> str:
    if name not in POLICIES:
        raise ValueError(f"unknown policy; known: {', '.join(POLICIES)}")
    return name


def _host_name(text: str) -> str:
    name = text.lower()
    if _HOST_NAME.fullmatch(name) is None:
        raise ValueError(f"{text!r} is no host name; write the name alone, without scheme, port and path")
    return name


HostName = Annotated[str, AfterValidator(_host_name)]
NonNegative = Annotated[float, Field(ge=0)]


class PowerSettings(ServiceSettings):
    """Where power readings and facility metrics come from."""

    operator_node_power_source: NodePowerSource = NodePowerSource.AUTO
    """The first source of power readings. `auto`: the agents. Where the source has no reading, the agents' readings are
    used, then the model from pod requests."""
    operator_node_power_http_endpoint: HttpUrl = ""
    """URL of a node's telemetry for the source `http`; `{node}` is replaced by the node's name."""
    operator_node_power_prometheus_address: HttpUrl = ""
    """Base URL of Prometheus for the sources `prometheus` and `kepler`."""
    operator_node_power_prometheus_query: str = ""
    """PromQL of the watts per node; required for `prometheus`. Empty with `kepler`: the rate of its joules."""
    operator_node_power_poll_interval: PositiveDuration = 15
    """How often the source is polled; a trend needs several samples in its five minutes."""
    operator_node_power_max_age: PositiveDuration = 180
    """Age up to which a reading counts: several report intervals of an agent, less than the age of a stale twin."""
    device_class_gpus_json: dict[str, NonNegative] = Field(default_factory=dict)
    """GPUs that a device of a DRA device class counts as where power is modelled from pod requests, by class:
    {"small-mig": 0.25, "nic": 0}. The classes of NVIDIA's, AMD's and Intel's drivers are known; any other counts as a
    whole GPU for each device, as a node must not look freer than it is."""
    enable_facility_metrics: bool = False
    """Query facility metrics from Prometheus, and compute the PUE from them."""
    facility_prometheus_address: HttpUrl = ""
    """Base URL of Prometheus for facility metrics."""
    facility_poll_interval: PositiveDuration = 30
    """How often facility metrics are queried; they change slowly."""
    facility_max_age: PositiveDuration = 300
    """Age up to which the last good value replaces one that cannot be queried."""
    facility_ambient_temp_metric: str = ""
    """PromQL of the ambient temperature in degrees Celsius; empty: not queried."""
    facility_it_power_metric: str = ""
    """PromQL of the IT power in watts; empty: not queried."""
    facility_cooling_power_metric: str = ""
    """PromQL of the cooling power in watts; empty: not queried."""
    facility_zone_ambient_metric_template: str = ""
    """PromQL of a cooling zone's temperature; `{zone}` is the node's label joulie.io/cooling-zone."""
    facility_rack_power_metric_template: str = ""
    """PromQL of a rack's draw in watts; `{rack}` is the node's label joulie.io/rack."""
    rack_capacity_watts: PositiveWatts = DEFAULT_RACK_CAPACITY_WATTS
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


class OperatorSettings(ElectedSettings, PowerSettings, CapSettings):
    """All of the operator's settings but those of the policies."""

    metrics_addr: Addr = ":8081"
    """Where /metrics, /healthz and /readyz are served; port 0 takes a free one, which the log names."""
    ui_addr: Addr = ""
    """Where the live page is served, at /ui; empty: nowhere. It is read-only and has no authentication:
    docs/live-page.md shows how to reach it on a loopback address."""
    ui_hosts: tuple[HostName, ...] = ()
    """Host names under which the live page may be requested besides localhost and addresses, such as that of a proxy
    which authenticates. Others are refused."""
    node_selector: LabelSelector = f"{labels.MANAGED}=true"
    """Label selector of the nodes under management."""
    reserved_label_key: str = labels.RESERVED
    """Label whose value `true` takes a node out of management while it stays in the selection."""
    policy_type: Annotated[str, AfterValidator(_known_policy)] = "static_partition"
    """The planning policy."""
    reconcile_interval: PositiveDuration = 60
    """Interval of the full pass, which plans and compares all nodes; changes are followed within PLAN_DEBOUNCE."""
    on_lost_control: OnLostControl = OnLostControl.RESTORE
    """What an agent does that cannot refresh its target for SPEC_READ_TIMEOUT: `restore` the original limits, `hold`
    the last caps, or go to the lowest cap (`floor`). The default is `restore`, so that no cap outlives its operator."""
    plan_debounce: Duration = 0.5
    """Changes within this time share one plan; well below the two seconds in which labels have to follow a pod."""
    downgrade_settle: Duration = 1
    """How long a node is announced as eco before its eco caps are published, so that a pod placed by the older label is
    seen."""
    twin_interval: PositiveDuration = 10
    """How often the numbers of the twins are computed; also the least time between two writes of one twin that change
    numbers only."""
    twin_settle: Duration = 20
    """How long changed numbers of a twin wait after a pod was bound to its node, at most twice that long while pods
    keep coming. The extender's TELEMETRY_INTERVAL: until then it counts the pod by its estimate, and a measurement that
    arrives earlier would count it twice."""
    twin_heartbeat: PositiveDuration = 90
    """Longest time between two writes of a twin; well below the five minutes after which it counts as stale."""
    gpu_product_label_keys: tuple[str, ...] = GPU_PRODUCT_KEYS
    """Labels that name a node's GPU model, most trusted first."""
    sleep_enabled: bool = False
    """Whether NodeSleepPolicies are followed: docs/sleep.md. Needs further permissions, which the chart grants with
    `operator.sleep.enabled`."""
    sleep_interval: PositiveDuration = 10
    """How often it is decided which nodes sleep; also soon after a pod has begun to wait for a node."""
    savings_enabled: bool = False
    """Whether it is estimated what Joulie saves: docs/savings.md. Needs further permissions in the operator's
    namespace, which the chart grants with `operator.savings.enabled`."""
    power_domains: PowerDomainsMode = PowerDomainsMode.OFF
    """`Observe`: the status of PowerDomains tells what would be allocated, and nothing is lowered. `Enforce`: nodes are
    limited where every domain of a tree says `mode: Enforce`. `Off`: limits that are left on nodes are lifted.
    docs/power-budgets.md. Needs further permissions, which the chart grants with `operator.powerDomains.enabled` and
    `enforce`."""
    power_oversubscription: PowerOversubscription = PowerOversubscription.OFF
    """`On`: the limits of nodes may add up to more than that of an enforced PowerDomain with `oversubscription`, while
    what they draw is measured. `Off`: the field changes nothing. docs/power-budgets.md#oversubscription"""
    lift_class_limits: bool = False
    """Whether limits of GPUs by class are lifted on the nodes that performance pods without a node could take. Of use
    where agents set such limits (CLASS_LIMITS=Enforce); the chart sets it there."""
    class_limits_lifted_for: PositiveDuration = DEFAULT_RULE.hold_s
    """How long these limits stay lifted after the last such pod has got a node. Longer saves less, and pods that come
    later wait less."""
    class_limits_spare_pct: Annotated[float, Field(ge=0, le=100)] = DEFAULT_RULE.spare_pct
    """They are lifted as well on all nodes of a GPU model of which less than this share of GPUs is free, in percent, as
    the next performance pod may have to wait; 0: only for pods that wait."""
    write_concurrency: Annotated[int, Field(ge=1, le=256)] = 16
    """Concurrent writes."""
    events_per_second: Annotated[float, Field(gt=0, le=1000)] = 50
    """Most Kubernetes Events written in one second; further ones wait."""
    operator_namespace: str = ""
    """Namespace of the lease; empty: POD_NAMESPACE."""
    lease_duration: PositiveDuration = 12
    """Age of the last renewal from which another replica takes the lease, within two retry periods."""
    lease_renew_deadline: PositiveDuration = 8
    """Time without a renewal after which the leader stops."""

    @property
    def lease_namespace(self) -> str:
        """Namespace of the lease."""
        return self.operator_namespace or self.pod_namespace

    @model_validator(mode="after")
    def _times_in_order(self) -> Self:
        if self.twin_heartbeat < self.twin_interval:
            raise ValueError("TWIN_HEARTBEAT must not be below TWIN_INTERVAL")
        return self


def settings_model() -> type[OperatorSettings]:
    """Return the whole model: the operator's settings and those of every registered policy."""
    policies = tuple(entry.settings for entry in POLICIES.values())
    return cast("type[OperatorSettings]", create_model("Settings", __base__=(OperatorSettings, *policies)))
