"""The balloons policy: containers share sets of CPUs, balloons, that grow and shrink with them."""

from joulie_core.containers.balloons.policy import BalloonsContainerPolicy
from joulie_core.containers.balloons.state import BalloonsState

__all__ = ["BalloonsContainerPolicy", "BalloonsState"]
