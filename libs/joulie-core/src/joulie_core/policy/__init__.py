"""Planning policies: how many nodes supply performance, and which.

A policy is one module: what it is for in its docstring, which becomes its section of docs/policies.md; its settings as
a pydantic model with names of their own, which become environment variables of the operator; and the policy itself. Its
tests are one file of that name. Nothing else knows of it but `registry`.
"""

from joulie_core.policy.model import Candidate, Plan, Policy, PolicyContext
from joulie_core.policy.registry import POLICIES, build_policy

__all__ = ["POLICIES", "Candidate", "Plan", "Policy", "PolicyContext", "build_policy"]
