"""The estimate of a node's power state that is published for the scheduler."""

from joulie_core.twin.build import (
    Measurement,
    PowerBudget,
    TwinInputs,
    budget_of,
    build_twin,
    schedulable_class,
)
from joulie_core.twin.economizer import AirsideEconomizer, CoolingMode
from joulie_core.twin.pue import FacilityConditions, LinearPue, MeasuredPue, PueModel
from joulie_core.twin.trend import PowerWindow

__all__ = [
    "AirsideEconomizer",
    "CoolingMode",
    "FacilityConditions",
    "LinearPue",
    "MeasuredPue",
    "Measurement",
    "PowerBudget",
    "PowerWindow",
    "PueModel",
    "TwinInputs",
    "budget_of",
    "build_twin",
    "schedulable_class",
]
