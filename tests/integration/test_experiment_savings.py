"""The estimate of savings beside a simulated pair."""

import pytest
from experiments.savings_estimate import Judged, mix_of, nodes, simulate_pair

from joulie_core.savings import Lever


@pytest.mark.parametrize("seed", [0, 1])
def test_the_interval_contains_what_a_pair_really_saves(seed):
    pairs = simulate_pair(nodes(), mix_of(0.3, warm_up_hours=1.0, hours=2.0), seed)
    assert set(pairs) == set(Judged)
    for found in pairs.values():
        assert found.saved > 0.0
        assert found.contained
        assert found.estimate.middle == pytest.approx(found.saved, rel=0.2)
        assert found.estimates[Lever.SLEEP].middle > found.estimates[Lever.SCORE].middle > 0.0
    assert pairs[Judged.ALL_WORK].baseline > pairs[Judged.HOURS].baseline
