"""Rules that hold for every score policy."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.demand import WorkloadClass
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import view_from_node
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.node import Node
from joulie_core.power.curves import node_curves
from joulie_core.powerest.marginal import NodePower
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.scoring.registry import DEFAULT_SCORE, SCORE_POLICIES
from joulie_core.scoring.state import ClusterTerms, NodeSituation, TwinSnapshot

_CURVES = node_curves(view_from_node(Node("n", labels={"joulie.io/hw.cpu-model": "AMD EPYC 7763"}), Inventory.load()))
_NODES = st.none() | st.builds(
    TwinSnapshot,
    schedulable_class=st.sampled_from(SchedulableClass),
    measured_watts=st.none() | st.floats(0, 1_000),
    capped_watts=st.none() | st.floats(1, 1_000),
    cpu_cap_share=st.none() | st.floats(0, 1),
    gpu_cap_share=st.none() | st.floats(0, 1),
    predicted_headroom_pct=st.none() | st.floats(-200, 100),
    cooling_stress_pct=st.none() | st.floats(0, 150),
    trend_w_per_min=st.floats(-400, 400),
    held_cores=st.none() | st.floats(0, 400),
    held_gpus=st.none() | st.floats(0, 8),
)
_DEMANDS = st.builds(
    PodDemand,
    cpu_cores=st.floats(0, 300),
    gpus=st.sampled_from([0.0, 0.5, 8.0]),
    workload_class=st.sampled_from(WorkloadClass),
)
_POWERS = st.sampled_from([NodePower(), NodePower(64, 300, curves=_CURVES), NodePower(64, 300, 4, 1_600)])


@pytest.mark.parametrize("policy", SCORE_POLICIES.values(), ids=lambda policy: policy.name)
@given(node=st.tuples(_NODES, _POWERS), stale=st.booleans(), demand=_DEMANDS, pressure=st.floats(0, 100))
def test_the_fast_form_gives_the_score_of_the_plain_form(policy, node, stale, demand, pressure):
    node, power = node
    cluster = ClusterTerms(0.0, pressure)
    situation = NodeSituation(node, power, stale=stale, pue=1.3)
    plain = policy.explain(situation, demand, cluster)
    row = policy.row(situation, demand.workload_class, cluster.trend_scale)
    assert 0 <= plain.score <= 100 + 1e-9
    assert row.score(policy.size(demand), pressure) == pytest.approx(plain.score, abs=1e-6)
    if node is None or stale:
        assert row == policy.unknown_row


@pytest.mark.parametrize("name", SCORE_POLICIES)
def test_a_score_has_its_name_and_a_section_in_the_reference(name):
    policy = SCORE_POLICIES[name]
    doc = sys.modules[type(policy).__module__].__doc__
    assert policy.name == name
    assert doc
    assert doc.startswith(f"`{name}`: ")


def test_the_formula_of_the_document_is_the_default():
    assert DEFAULT_SCORE.name == "headroom_v1"
