import pytest

from joulie_containers.node_agent.capacity import capacity_changes

ECO = "cpuclass.joulie.io/eco-milli"


@pytest.mark.parametrize(
    ("reported", "capacity", "published", "changes"),
    [
        ({ECO: 4000}, {}, (), {ECO: "4000"}),
        ({ECO: 4000}, {ECO: "4k"}, (), {}),
        ({ECO: 4000}, {ECO: "4001"}, (), {ECO: "4000"}),
        ({}, {ECO: "4k"}, (), {ECO: None}),
        ({}, {"joulie.io/x": "1"}, (), {"joulie.io/x": None}),
        ({}, {"notjoulie.io/x": "1", "nvidia.com/gpu": "8"}, (), {}),
        ({}, {"example.com/x": "1"}, ("example.com/x",), {"example.com/x": None}),
        ({}, {}, ("example.com/x",), {}),
        ({"cpu": 4, "nodot/x": 1, "example.com/x": 0}, {}, (), {"example.com/x": "0"}),
    ],
)
def test_what_differs_is_set_and_what_is_no_longer_reported_is_removed_where_it_is_the_agent_s(
    reported, capacity, published, changes
):
    assert capacity_changes(reported, capacity, published) == changes
