"""Removal of a cluster whose supervisor was killed."""

from joulie_devcluster.cli.teardown import tear_down
from joulie_devcluster.control_plane.state import ClusterState, ProcessRecord
from joulie_devcluster.real_node import cgroups, cleanup

DEAD = ProcessRecord("supervisor", 2**22 + 1, 1)


def test_files_and_leftovers_of_a_real_node_are_removed(hierarchies, tmp_path):
    directory, mount_point = tmp_path / "cluster", tmp_path / "var" / "kubelet"
    cleanup.make_mount_points(directory, [mount_point])
    group = hierarchies / "cpuset" / cgroups.group_name(directory)
    cgroups.create(group.name)
    assert group.is_dir()
    ClusterState("a", DEAD).write(directory)
    assert tear_down(directory, grace_s=5)
    assert not directory.exists()
    assert not mount_point.exists()
    assert not group.exists()


def test_a_directory_without_a_cluster_is_not_removed(tmp_path):
    assert not tear_down(tmp_path)
    assert tmp_path.exists()
