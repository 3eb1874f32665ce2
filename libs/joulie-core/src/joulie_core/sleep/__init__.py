"""Sleeping nodes: which nodes are off, and when they are on again; see docs/decisions/0024-sleeping-nodes.md."""

from joulie_core.kinds.node_sleep_policy import SleepSettings
from joulie_core.sleep.arrivals import ArrivalHistory
from joulie_core.sleep.decide import SleepCluster, decide, to_empty
from joulie_core.sleep.machine import intent_of
from joulie_core.sleep.model import (
    NodePowerFacts,
    Shutdown,
    SleepIntent,
    SleepNode,
    SleepPod,
    SleepReason,
    SleepRecord,
    SleepRefusal,
)
from joulie_core.sleep.windows import AwakeWindow
from joulie_core.sleep_state import SleepState

__all__ = [
    "ArrivalHistory",
    "AwakeWindow",
    "NodePowerFacts",
    "Shutdown",
    "SleepCluster",
    "SleepIntent",
    "SleepNode",
    "SleepPod",
    "SleepReason",
    "SleepRecord",
    "SleepRefusal",
    "SleepSettings",
    "SleepState",
    "decide",
    "intent_of",
    "to_empty",
]
