"""Models of Joulie's custom resources, one module per kind; see docs/crds.md."""

from joulie_core.kinds.adjustment import Adjustment
from joulie_core.kinds.balloons_policy import BalloonsPolicy, BalloonsPolicySpec
from joulie_core.kinds.base import API_VERSION, GROUP, VERSION, Condition, ConditionStatus, Kind, Model, Profile
from joulie_core.kinds.node_bmc import NodeBMC, NodeBMCSpec, NodeBMCStatus
from joulie_core.kinds.node_hardware import NodeHardware, NodeHardwareStatus
from joulie_core.kinds.node_power_budget import NodePowerBudget, NodePowerBudgetSpec, NodePowerBudgetStatus
from joulie_core.kinds.node_power_profile import NodePowerProfile, NodePowerProfileSpec
from joulie_core.kinds.node_sleep_policy import NodeSleepPolicy, NodeSleepPolicySpec, NodeSleepPolicyStatus
from joulie_core.kinds.node_twin import NodeTwin, NodeTwinStatus
from joulie_core.kinds.power_domain import PowerDomain, PowerDomainSpec, PowerDomainStatus
from joulie_core.kinds.power_event import PowerEvent, PowerEventSpec, PowerEventStatus
from joulie_core.kinds.telemetry_profile import TelemetryProfile, TelemetryProfileStatus
from joulie_core.kinds.template_policy import TemplatePolicy, TemplatePolicySpec
from joulie_core.kinds.topology_aware_policy import TopologyAwarePolicy, TopologyAwarePolicySpec

#: Every kind, in the order in which the manifests are written.
KINDS: tuple[Kind, ...] = (
    NodeHardware.info,
    NodePowerProfile.info,
    TelemetryProfile.info,
    NodeTwin.info,
    BalloonsPolicy.info,
    TopologyAwarePolicy.info,
    TemplatePolicy.info,
    Adjustment.info,
    NodeBMC.info,
    NodeSleepPolicy.info,
    PowerDomain.info,
    NodePowerBudget.info,
    PowerEvent.info,
)

__all__ = [
    "API_VERSION",
    "GROUP",
    "KINDS",
    "VERSION",
    "Adjustment",
    "BalloonsPolicy",
    "BalloonsPolicySpec",
    "Condition",
    "ConditionStatus",
    "Kind",
    "Model",
    "NodeBMC",
    "NodeBMCSpec",
    "NodeBMCStatus",
    "NodeHardware",
    "NodeHardwareStatus",
    "NodePowerBudget",
    "NodePowerBudgetSpec",
    "NodePowerBudgetStatus",
    "NodePowerProfile",
    "NodePowerProfileSpec",
    "NodeSleepPolicy",
    "NodeSleepPolicySpec",
    "NodeSleepPolicyStatus",
    "NodeTwin",
    "NodeTwinStatus",
    "PowerDomain",
    "PowerDomainSpec",
    "PowerDomainStatus",
    "PowerEvent",
    "PowerEventSpec",
    "PowerEventStatus",
    "Profile",
    "TelemetryProfile",
    "TelemetryProfileStatus",
    "TemplatePolicy",
    "TemplatePolicySpec",
    "TopologyAwarePolicy",
    "TopologyAwarePolicySpec",
]
