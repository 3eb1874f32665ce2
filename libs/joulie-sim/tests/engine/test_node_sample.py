"""The sample of nodes that kube-scheduler scores."""

import numpy as np
import pytest

from joulie_core.savings.kube_scores import nodes_to_find, zone_order
from joulie_sim.engine.node_sample import NodeSample


@pytest.mark.parametrize(
    ("nodes", "percentage", "found"),
    [
        (99, 0, 99),
        (99, 10, 99),
        # 48 % of 300; 50 - 2500 // 125 = 30 % of 2,500; never below 5 % or 100 nodes.
        (300, 0, 144),
        (2500, 0, 750),
        (10_000, 0, 500),
        (100, 0, 100),
        (150, 10, 100),
        (1000, 100, 1000),
    ],
)
def test_the_number_of_nodes_follows_the_size_of_the_cluster(nodes, percentage, found) -> None:
    assert nodes_to_find(nodes, percentage) == found


def test_zones_take_turns() -> None:
    assert zone_order(["a", "a", "a", "b", "c", "b"]) == [0, 3, 4, 1, 5, 2]


def test_the_search_goes_on_where_it_stopped_and_leaves_no_node_out() -> None:
    sample = NodeSample(250, 40)
    fits = np.ones(250, dtype=np.bool_)
    taken = [sample.take(fits) for _ in range(5)]
    assert [len(nodes) for nodes in taken] == [100] * 5
    assert np.bincount(np.concatenate(taken), minlength=250).tolist() == [2] * 250
    assert taken[2].tolist() == [*range(200, 250), *range(50)]


def test_nodes_that_do_not_fit_are_passed_over() -> None:
    sample = NodeSample(250, 40)
    fits = np.ones(250, dtype=np.bool_)
    fits[::2] = False
    assert sample.take(fits).tolist() == list(range(1, 200, 2))
    assert sample.start == 201
    few = np.zeros(250, dtype=np.bool_)
    few[3] = True
    assert sample.take(few).tolist() == [3]
    assert sample.start == 201
