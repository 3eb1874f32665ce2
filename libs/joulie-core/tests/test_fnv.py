import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.fnv import fnv1a_32, shard_of


@pytest.mark.parametrize(("text", "value"), [("", 0x811C9DC5), ("a", 0xE40C292C), ("foobar", 0xBF9CF968)])
def test_published_vectors_hold(text, value):
    assert fnv1a_32(text) == value


@given(st.text(), st.integers(1, 64))
def test_a_node_has_exactly_one_shard(name, shards):
    assert [shard for shard in range(shards) if shard_of(name, shards) == shard] == [fnv1a_32(name) % shards]


def test_no_shards_is_refused():
    with pytest.raises(ValueError, match="positive"):
        shard_of("node-0", 0)


def test_names_spread_over_shards():
    counts = [0, 0, 0, 0]
    for number in range(1000):
        counts[shard_of(f"kwok-node-{number}", 4)] += 1
    assert min(counts) > 200
