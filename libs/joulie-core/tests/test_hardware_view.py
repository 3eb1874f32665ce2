import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import resolve_view, view_from_node, view_from_status
from joulie_core.kinds.node_hardware import Exactness, NodeHardwareStatus
from joulie_core.node import Node

INVENTORY = Inventory.load()
NFD_CPU = "feature.node.kubernetes.io/cpu-model."
NFD_PCI = "feature.node.kubernetes.io/pci-"


def node(labels=None, **allocatable):
    names = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
    return Node(
        "n1", labels=labels or {}, allocatable={names.get(key, key): value for key, value in allocatable.items()}
    )


def of_node(labels=None, **allocatable):
    return view_from_node(node(labels, **allocatable), INVENTORY)


def status(**parts):
    return NodeHardwareStatus.model_validate(parts)


def test_labels_describe_a_whole_gpu_node():
    view = of_node(
        {
            "joulie.io/hw.cpu-model": "AMD_EPYC_9654",
            "joulie.io/hw.cpu-sockets": "2",
            "joulie.io/hw.cpu-cores": "192",
            "joulie.io/hw.gpu-model": "NVIDIA-H100-80GB-HBM3",
            "joulie.io/hw.gpu-count": "8",
        },
        memory="1536Gi",
    )
    assert (view.cpu.model, view.cpu.vendor, view.cpu.sockets, view.cpu.total_cores) == ("AMD EPYC 9654", "AMD", 2, 192)
    assert (view.gpu.model, view.gpu.vendor, view.gpu.count) == ("NVIDIA H100 SXM", "NVIDIA", 8)
    assert (view.cpu_max_watts, view.gpu_max_watts, view.tdp_watts) == (720, 5600, 6320)
    assert view.memory_bytes == 1536 * 2**30
    assert view.exactness is Exactness.EXACT
    assert view.family == "NVIDIA H100 SXM"


def test_a_cpu_only_node_is_of_its_cpus_family():
    view = of_node({"joulie.io/hw.cpu-model": "Intel-Xeon-Gold-6338"})
    assert view.gpu is None
    assert view.gpu_max_watts == 0
    assert view.family == "Intel Xeon 6338"
    assert view.exactness is Exactness.EXACT
    assert (view.cpu.sockets, view.cpu.total_cores) == (1, 32)


def test_cores_come_from_allocatable_threads_without_a_label():
    view = of_node({"joulie.io/hw.cpu-model": "AMD EPYC 7763"}, cpu="255500m")
    assert (view.cpu.total_cores, view.cpu.sockets) == (128, 2)


def test_a_cpu_without_hyper_threads_has_as_many_cores_as_threads():
    assert of_node({"joulie.io/hw.cpu-model": "Intel Xeon 6766E"}, cpu="288").cpu.sockets == 2


def test_a_part_of_a_socket_is_one_socket():
    view = of_node({"joulie.io/hw.cpu-model": "AMD EPYC 9654"}, cpu="16")
    assert (view.cpu.total_cores, view.cpu.sockets) == (8, 1)


def test_a_node_of_unknown_cpus_is_generic_but_has_watts():
    view = of_node(cpu="64")
    assert view.exactness is Exactness.GENERIC
    assert view.cpu.total_cores == 32
    assert view.cpu_max_watts > 0
    assert view.family == "generic unknown CPU"


def test_a_node_without_facts_has_no_cpu():
    view = of_node()
    assert (view.cpu, view.gpu, view.memory_bytes, view.tdp_watts, view.family) == (None, None, 0, 0, "")
    assert view.exactness is Exactness.GENERIC


def test_the_cpu_generation_comes_from_nfd():
    view = of_node({f"{NFD_CPU}vendor_id": "Intel", f"{NFD_CPU}family": "6", f"{NFD_CPU}id": "143"}, cpu="208")
    assert view.cpu.spec.key == "intel-xeon-8470"
    assert view.exactness is Exactness.PROXY
    assert (view.cpu.total_cores, view.cpu.sockets) == (104, 2)


def test_the_models_own_label_wins_over_nfd():
    labels = {f"{NFD_CPU}vendor_id": "Intel", f"{NFD_CPU}family": "6", f"{NFD_CPU}id": "143"}
    assert of_node(labels | {"joulie.io/hw.cpu-model": "Intel Xeon 8380"}).cpu.model == "Intel Xeon 8380"


@pytest.mark.parametrize(
    "key", ["joulie.io/hw.gpu-model", "joulie.io/gpu.product", "nvidia.com/gpu.product", "amd.com/gpu.product"]
)
def test_every_product_label_is_read(key):
    assert of_node({key: "Tesla-T4"}, nvidia="4").gpu.model == "NVIDIA T4"


def test_product_labels_have_an_order_and_can_be_replaced():
    labels = {"joulie.io/hw.gpu-model": "A30", "nvidia.com/gpu.product": "NVIDIA-L40S", "my.org/gpu": "NVIDIA-A40"}
    assert of_node(labels).gpu.model == "NVIDIA A30"
    assert view_from_node(node(labels), INVENTORY, ("my.org/gpu",)).gpu.model == "NVIDIA A40"


def test_an_unreadable_product_label_gives_way_to_the_next():
    labels = {"joulie.io/hw.gpu-model": "???", "nvidia.com/gpu.product": "NVIDIA-L4"}
    assert of_node(labels).gpu.model == "NVIDIA L4"


@pytest.mark.parametrize(
    ("labels", "allocatable", "count"),
    [
        ({"joulie.io/hw.gpu-count": "8"}, {"nvidia": "4"}, 8),
        ({"nvidia.com/gpu.count": "2"}, {"nvidia": "16"}, 2),
        ({}, {"nvidia": "4"}, 4),
        ({"nvidia.com/gpu.product": "NVIDIA-A30"}, {}, 1),
        ({"nvidia.com/gpu.product": "NVIDIA-A30", "joulie.io/hw.gpu-count": "many"}, {"nvidia": "2"}, 2),
    ],
)
def test_the_gpu_count_has_an_order_of_sources(labels, allocatable, count):
    assert of_node(labels, **allocatable).gpu.count == count


def test_a_count_of_zero_means_that_there_is_no_gpu():
    labels = {"joulie.io/hw.gpu-count": "0", "joulie.io/hw.gpu-model": "A30", "joulie.io/hw.cpu-model": "9654"}
    view = of_node(labels)
    assert view.gpu is None
    assert view.exactness is Exactness.EXACT


@pytest.mark.parametrize(("allocatable", "vendor"), [({"nvidia": "2"}, "NVIDIA"), ({"amd": "2"}, "AMD")])
def test_the_vendor_follows_from_allocatable_gpus(allocatable, vendor):
    view = of_node(**allocatable)
    assert (view.gpu.vendor, view.gpu.count, view.exactness) == (vendor, 2, Exactness.GENERIC)


@pytest.mark.parametrize(
    ("label", "vendor"),
    [
        ("10de.present", "NVIDIA"),
        ("0302_10de.present", "NVIDIA"),
        ("0300_1002.present", "AMD"),
        ("1002.present", "AMD"),
        ("0380_8086.present", "Intel"),
        ("8086.present", None),
        ("0200_8086.present", None),
        ("0403_10de.present", None),
        ("0200_15b3.present", None),
        ("10de.sriov.capable", None),
    ],
)
def test_the_gpu_vendor_comes_from_nfd(label, vendor):
    gpu = of_node({NFD_PCI + label: "true"}).gpu
    assert (gpu.vendor if gpu else None) == vendor
    assert of_node({NFD_PCI + label: "false"}).gpu is None


def test_unreadable_quantities_count_as_absent():
    view = of_node({"joulie.io/hw.cpu-cores": "-4"}, cpu="lots", memory="?", nvidia="x")
    assert (view.cpu, view.gpu, view.memory_bytes) == (None, None, 0)


FULL = status(
    cpu={
        "rawModel": "Intel(R) Xeon(R) Platinum 8480+",
        "vendor": "Intel",
        "sockets": 2,
        "totalCores": 112,
        "capRange": {"minWattsPerSocket": 180, "maxWattsPerSocket": 330},
        "landmarks": {"baseFreqMHz": 2100},
    },
    gpu={
        "present": True,
        "rawModel": "NVIDIA A100-SXM4-80GB",
        "count": 4,
        "capRangePerGpu": {"minWatts": 110, "maxWatts": 390, "defaultWatts": 380},
    },
    memory={"totalBytes": 1024},
)


def test_what_the_agent_discovered_is_taken_as_it_is():
    view = view_from_status(FULL, INVENTORY)
    cpu, gpu = view.cpu, view.gpu
    assert (cpu.model, cpu.sockets, cpu.total_cores, cpu.base_ghz) == ("Intel Xeon 8480", 2, 112, 2.1)
    assert (cpu.min_watts_per_socket, cpu.max_watts_per_socket) == (180, 330)
    assert (gpu.model, gpu.count) == ("NVIDIA A100 SXM4 80GB", 4)
    assert (gpu.min_watts, gpu.default_watts, gpu.max_watts) == (110, 380, 390)
    assert view.tdp_watts == 2 * 330 + 4 * 390
    assert view.memory_bytes == 1024


LABELS = {
    "joulie.io/hw.cpu-model": "AMD EPYC 7763",
    "joulie.io/hw.cpu-sockets": "1",
    "joulie.io/hw.gpu-model": "Tesla T4",
}


def test_discovery_wins_over_labels():
    assert resolve_view(node(LABELS, cpu="4", memory="1Gi"), FULL, INVENTORY) == view_from_status(FULL, INVENTORY)


@pytest.mark.parametrize(
    ("discovered", "allocatable", "threads"),
    [
        ({"totalCores": 64, "threads": 128}, "120", 128),
        ({"totalCores": 64, "threads": 64}, "128", 64),
        ({"totalCores": 64}, "127500m", 128),
        ({"totalCores": 64}, None, 64),
        ({"totalCores": 64}, "8", 64),
        ({}, "128", 128),
    ],
)
def test_threads_are_those_counted_else_the_most_there_are_for_certain(discovered, allocatable, threads):
    of = {"cpu": allocatable} if allocatable else {}
    view = resolve_view(node({"joulie.io/hw.cpu-model": "AMD EPYC 7742"}, **of), status(cpu=discovered), INVENTORY)
    assert (view.cpu.total_cores, view.cpu.threads) == (64, threads)


@given(st.integers(1, 256), st.integers(1, 2), st.integers(0, 512), st.booleans())
def test_threads_that_nobody_counted_never_exceed_those_there_are(cores, per_core, reserved, label):
    there = cores * per_core
    allocatable = max(there - reserved, 0)
    labels = {"joulie.io/hw.cpu-cores": str(cores)} if label else {}
    view = resolve_view(node(labels, cpu=str(allocatable)), status(cpu={"totalCores": cores}), INVENTORY)
    assert max(cores, allocatable) <= view.cpu.threads <= there


def test_labels_fill_what_was_not_discovered():
    part = status(cpu={"capRange": {"minWattsPerSocket": 0, "maxWattsPerSocket": 250}})
    view = resolve_view(node(LABELS | {"joulie.io/hw.cpu-cores": "64"}, memory="1Gi"), part, INVENTORY)
    assert (view.cpu.model, view.cpu.total_cores, view.cpu.max_watts_per_socket) == ("AMD EPYC 7763", 64, 250)
    assert view.cpu.min_watts_per_socket == 112
    assert view.gpu.model == "NVIDIA T4"
    assert view.memory_bytes == 2**30


def test_without_discovery_the_node_speaks():
    assert resolve_view(node(LABELS), None, INVENTORY) == view_from_node(node(LABELS), INVENTORY)
    assert resolve_view(node(LABELS), status(), INVENTORY) == view_from_node(node(LABELS), INVENTORY)


def test_an_agent_that_saw_no_gpu_is_believed():
    assert resolve_view(node(LABELS), status(gpu={"present": False}), INVENTORY).gpu is None


def test_a_label_that_recognises_more_than_the_vendor_names_the_model():
    vague = status(cpu={"rawModel": "Intel(R) Xeon(R) Processor @ 2.20GHz", "sockets": 1, "totalCores": 40})
    view = resolve_view(node({"joulie.io/hw.cpu-model": "Intel Xeon 8380"}), vague, INVENTORY)
    assert view.cpu.model == "Intel Xeon 8380"


def test_a_desktop_that_shares_its_family_and_model_with_servers_is_none_of_them():
    nfd = {f"{NFD_CPU}vendor_id": "Intel", f"{NFD_CPU}family": "6", f"{NFD_CPU}id": "85"}
    seen = status(cpu={"rawModel": "Intel(R) Core(TM) i9-10980XE CPU @ 3.00GHz", "sockets": 1, "totalCores": 18})
    view = resolve_view(node(nfd), seen, INVENTORY)
    assert (view.cpu.spec.key, view.exactness) == ("generic-intel-desktop-cpu", Exactness.GENERIC)


def test_devices_count_where_the_count_is_missing():
    gpu = {"present": True, "model": "A30", "devices": [{"uuid": "a", "index": 0}, {"uuid": "b", "index": 1}]}
    assert view_from_status(status(gpu=gpu), INVENTORY).gpu.count == 2


def test_two_spellings_of_an_unlisted_model_are_one_family():
    discovered = view_from_status(status(cpu={"rawModel": "AMD EPYC 7B13", "sockets": 2, "totalCores": 128}), INVENTORY)
    assert discovered.family == of_node({"joulie.io/hw.cpu-model": "amd-epyc-7b13"}).family == "AMD EPYC 7B13"


label_values = st.sampled_from(["", "0", "2", "64", "AMD EPYC 9654", "8480+", "x", "NVIDIA A100", "T4", "true", "-1"])
label_keys = st.sampled_from(
    [
        "joulie.io/hw.cpu-model",
        "joulie.io/hw.cpu-sockets",
        "joulie.io/hw.cpu-cores",
        "joulie.io/hw.gpu-model",
        "joulie.io/hw.gpu-count",
        "nvidia.com/gpu.product",
        f"{NFD_PCI}10de.present",
    ]
)


@given(
    st.dictionaries(label_keys, label_values),
    st.dictionaries(
        st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.sampled_from(["0", "8", "96", "1Gi", "?"])
    ),
)
def test_a_view_is_consistent_for_any_node(labels, allocatable):
    view = view_from_node(Node("n1", labels=labels, allocatable=allocatable), INVENTORY)
    assert view == resolve_view(Node("n1", labels=labels, allocatable=allocatable), None, INVENTORY)
    if view.cpu:
        assert view.cpu.sockets >= 1
        assert view.cpu.total_cores >= 1
        assert 0 < view.cpu.min_watts_per_socket <= view.cpu.max_watts_per_socket
    if view.gpu:
        assert view.gpu.count >= 1
        assert 0 < view.gpu.min_watts <= view.gpu.default_watts <= view.gpu.max_watts
    assert view.tdp_watts == view.cpu_max_watts + view.gpu_max_watts
    assert bool(view.family) == bool(view.cpu or view.gpu)
