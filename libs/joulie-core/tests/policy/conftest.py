"""What tests of policies are written in: candidates, contexts, and which nodes a plan leaves at full performance."""

import pytest

from joulie_core.kinds.base import Profile
from joulie_core.names import NodeName
from joulie_core.policy import Candidate, PolicyContext

INTERVAL_S = 60.0


def make(name, density=1.0, family="cpu-a"):
    return Candidate(NodeName(name), density, family)


@pytest.fixture
def node():
    """Return a candidate."""
    return make


@pytest.fixture
def nodes():
    """Return that many candidates of one family, the first the densest."""
    return lambda count: [make(f"node-{index}", density=float(count - index)) for index in range(count)]


@pytest.fixture
def context():
    """Return what a policy is given."""

    def build(candidates, pods=0, now=0.0):
        return PolicyContext(candidates=candidates, performance_pods=pods, now=now, reconcile_interval_s=INTERVAL_S)

    return build


@pytest.fixture
def performance():
    """Return the performance nodes of a plan."""
    return lambda plan: {name for name, profile in plan.profiles.items() if profile is Profile.PERFORMANCE}
