"""Reasons of the operator's Events and conditions: one word for each cause, the same in status, Event and test."""

from enum import StrEnum


class EventReason(StrEnum):
    """Value of `reason` of an Event."""

    #: The policy plans eco, and performance pods are still on the node.
    ECO_DEFERRED = "EcoDeferred"
    #: The policy plans eco, and no performance pod is on the node.
    ECO_ALLOWED = "EcoAllowed"
    #: The last performance pod of a draining node has left.
    ECO_UNBLOCKED = "EcoUnblocked"
    #: The policy plans performance again for a draining node.
    PERFORMANCE_REPLANNED = "PerformanceReplanned"
    #: The policy plans performance.
    PERFORMANCE_PLANNED = "PerformancePlanned"
    #: A change has to wait, since the node's pods cannot be read.
    PODS_UNKNOWN = "PodsUnknown"
    #: The hardware does not take its caps.
    CAPS_NOT_ENFORCED = "CapsNotEnforced"
    #: A defect of the operator: the node keeps what is published for it.
    INTERNAL_ERROR = "InternalError"
    #: The stored ledger of savings cannot be read; a new one was begun.
    SAVINGS_SET_ASIDE = "SavingsSetAside"
    #: A pod names a workload class that does not exist.
    UNKNOWN_WORKLOAD_CLASS = "UnknownWorkloadClass"
    #: The states of a node that sleeps.
    NODE_CORDONED_FOR_SLEEP = "NodeCordonedForSleep"
    NODE_DRAINING_FOR_SLEEP = "NodeDrainingForSleep"
    NODE_POWERING_OFF = "NodePoweringOff"
    NODE_ASLEEP = "NodeAsleep"
    NODE_WAKING = "NodeWaking"
    NODE_AWAKE = "NodeAwake"
    #: Its boots have failed.
    NODE_QUARANTINED = "NodeQuarantined"


class ConditionReason(StrEnum):
    """Value of `reason` of a condition; `Enforced` also takes the agent's reasons."""

    #: Planned: the policy chose the profile.
    POLICY = "Policy"
    #: Planned: the node is cordoned and keeps its last profile.
    CORDONED = "Cordoned"
    #: Draining: performance pods hold the caps up.
    PERFORMANCE_PODS = "PerformancePods"
    #: Draining: nothing holds the caps up.
    NOT_DRAINING = "NotDraining"
    #: Enforced: the target sets no caps.
    NO_INTENT = "NoIntent"
    #: Enforced: the agent has not reported on a subsystem that the target names.
    NOT_REPORTED = "NotReported"
