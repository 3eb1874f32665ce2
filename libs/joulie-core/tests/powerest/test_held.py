"""CPUs and GPUs that pods hold, by node."""

from hypothesis import given
from hypothesis import strategies as st

from joulie_core.names import NodeName
from joulie_core.powerest.held import HeldDevices
from joulie_core.powerest.pod_demand import PodDemand

_A, _B = NodeName("a"), NodeName("b")
_DEMANDS = st.builds(PodDemand, cpu_cores=st.floats(0, 300), gpus=st.sampled_from([0.0, 1 / 7, 1.0, 8.0]))


def test_pods_are_summed_by_node():
    held = HeldDevices()
    held.add(_A, PodDemand(4.0, 1.0))
    held.add(_A, PodDemand(0.5))
    held.add(_B, PodDemand(2.0, 8.0))
    assert (held.cores(_A), held.gpus(_A)) == (4.5, 1.0)
    assert (held.cores(_B), held.gpus(_B)) == (2.0, 8.0)
    held.remove(_A, PodDemand(4.0, 1.0))
    assert (held.cores(_A), held.gpus(_A)) == (0.5, 0.0)


@given(st.lists(_DEMANDS, max_size=30), st.randoms(use_true_random=False))
def test_a_node_is_forgotten_with_its_last_pod_in_any_order(demands, dice):
    held = HeldDevices()
    for demand in demands:
        held.add(_A, demand)
    shuffled = list(demands)
    dice.shuffle(shuffled)
    for number, demand in enumerate(shuffled, start=1):
        held.remove(_A, demand)
        assert len(held) == (1 if number < len(shuffled) else 0)
    assert (held.cores(_A), held.gpus(_A)) == (0.0, 0.0)
