"""Names of AMD's partitions, from trees as amdgpu makes them for a node with MI300X."""

import pytest

from joulie_actuator.hardware.gpu.kfd import partition_names
from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_testing.agent.kfd_tree import KfdTree

GPUS = (0x0C, 0x22)
#: Partitions of each GPU in the mode DPX.
PARTS = 2


class Tree(KfdTree):
    def __init__(self, root):
        super().__init__(root)
        # One with a CPU has no render node.
        self.node(0, drm_render_minor=0, location_id=0, domain=0)

    def names(self):
        return partition_names(SysfsTree(self.root))


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def fill(tree, part_of, domain=0):
    """Add all GPUs; `part_of` returns what a partition adds to `location_id`."""
    for gpu, bus in enumerate(GPUS):
        for part in range(PARTS):
            render = 128 + gpu * PARTS + part
            location = bus << 8 | 3 << 3 | part_of(part)
            tree.node(1 + gpu * PARTS + part, drm_render_minor=render, location_id=location, domain=domain)
            if part:
                tree.partition(gpu * 7 + part, render)


@pytest.mark.parametrize(
    "part_of", [lambda part: part, lambda part: part << 28], ids=["in the function", "in the highest bits"]
)
def test_partitions_are_named_by_the_address_of_their_gpu(part_of, tree):
    fill(tree, part_of)
    assert tree.names() == {"0000:0c:03.0": ("amdgpu_xcp_1",), "0000:22:03.0": ("amdgpu_xcp_8",)}


def test_the_partitions_of_one_gpu_are_in_the_order_of_their_numbers(tree):
    for number, render in ((10, 131), (9, 130), (2, 129)):
        tree.node(number, drm_render_minor=render, location_id=0xC100, domain=1)
        tree.partition(number, render)
    assert tree.names() == {"0001:c1:00.0": ("amdgpu_xcp_2", "amdgpu_xcp_9", "amdgpu_xcp_10")}


def test_platform_devices_without_a_node_of_the_topology_are_no_partitions(tree):
    fill(tree, lambda part: part)
    # amdgpu makes more of them than there are partitions in the mode in use.
    tree.partition(3, 190)
    assert "amdgpu_xcp_3" not in str(tree.names())


@pytest.mark.parametrize("renders", [(), (129, 130)])
def test_a_platform_device_without_one_render_node_is_left_out(renders, tree):
    tree.node(1, drm_render_minor=129, location_id=0xC100, domain=0)
    tree.node(2, drm_render_minor=130, location_id=0xC200, domain=0)
    tree.partition(1, *renders)
    (tree.root / "devices/platform/amdgpu_xcp_1").mkdir(parents=True, exist_ok=True)
    assert tree.names() == {}


@pytest.mark.parametrize(
    "properties",
    [
        {"drm_render_minor": 129, "domain": 0},
        {"drm_render_minor": 129, "location_id": 0xC100},
        {"drm_render_minor": 129, "location_id": "0xc100", "domain": 0},
        {"drm_render_minor": 129, "location_id": 12345678901, "domain": 0},
        {"location_id": 0xC100, "domain": 0},
    ],
)
def test_a_node_of_which_the_address_is_not_known_names_none(properties, tree):
    tree.node(1, **properties)
    tree.partition(1, 129)
    assert tree.names() == {}


def test_a_render_node_that_two_nodes_of_the_topology_have_is_of_no_certain_gpu(tree):
    for number, location in ((1, 0xC100), (2, 0xC200), (3, 0xC100)):
        tree.node(number, drm_render_minor=129, location_id=location, domain=0)
    tree.partition(1, 129)
    assert tree.names() == {}


def test_two_nodes_that_name_the_same_gpu_for_a_render_node_are_one(tree):
    for number in (1, 2):
        tree.node(number, drm_render_minor=129, location_id=0xC100, domain=0)
    tree.partition(1, 129)
    assert tree.names() == {"0000:c1:00.0": ("amdgpu_xcp_1",)}


def test_the_first_render_node_counts(tree):
    tree.node(1, drm_render_minor=128, location_id=0xC100, domain=0)
    tree.partition(1, 128)
    assert tree.names() == {"0000:c1:00.0": ("amdgpu_xcp_1",)}


def test_a_topology_that_may_not_be_read_names_none(tree):
    fill(tree, lambda part: part)
    for properties in tree.root.glob("class/kfd/kfd/topology/nodes/*/properties"):
        properties.unlink()
    assert tree.names() == {}


def test_a_machine_without_kfd_has_none(tmp_path):
    assert partition_names(SysfsTree(tmp_path)) == {}
