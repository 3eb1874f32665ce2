"""Cleanup functions of a cluster, without its processes."""

import pytest

from joulie_devcluster.binaries import lookup
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.config import ClusterConfig


@pytest.fixture
def cluster(monkeypatch, tmp_path):
    async def start_nothing(_self):
        pass

    monkeypatch.setattr(lookup, "ensure", lambda **_: {})
    monkeypatch.setattr(DevCluster, "_start_with_free_ports", start_nothing)
    return DevCluster(ClusterConfig(directory=tmp_path / "c"))


async def test_down_calls_each_cleanup_once_in_reverse_order_before_it_removes_the_files(cluster, tmp_path):
    calls = []
    await cluster.up()
    for name in ("first", "second"):
        cluster.add_cleanup(lambda name=name: calls.append((name, (tmp_path / "c").exists())))
    await cluster.down()
    await cluster.down()
    assert calls == [("second", True), ("first", True)]
    assert not (tmp_path / "c").exists()


async def test_a_failed_start_calls_the_cleanups(cluster, tmp_path):
    calls = []

    async def fail():
        cluster.add_cleanup(lambda: calls.append("cleanup"))
        raise RuntimeError("no node")

    with pytest.raises(RuntimeError, match="no node"):
        await cluster.up(before_ready=fail)
    assert calls == ["cleanup"]
    assert not (tmp_path / "c").exists()
