"""Planning policies: how many nodes supply performance, and which. One module per policy."""

from joulie_core.policy.model import Candidate, Choice, Plan, Policy, PolicyContext
from joulie_core.policy.registry import POLICIES, build_policy

__all__ = ["POLICIES", "Candidate", "Choice", "Plan", "Policy", "PolicyContext", "build_policy"]
