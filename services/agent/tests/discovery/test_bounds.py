"""Whatever discovery yields, the API server takes: the schema of the CustomResourceDefinition bounds every field."""

import json
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft4Validator

from joulie_actuator.hardware.cpuinfo import CpuIdentity, HostFacts
from joulie_actuator.hardware.gpu.driver import GpuDeviceInfo, Vendor
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.pci import PciGpus
from joulie_actuator.reasons import Reason
from joulie_agent.backends.telemetry_wire import parse_telemetry
from joulie_agent.discovery.discoverer import Discoverer
from joulie_agent.discovery.facts import HardwareFacts
from joulie_agent.discovery.gpu import describe_gpus
from joulie_agent.discovery.host import describe_cpu, describe_memory
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds.crds import manifest
from joulie_core.kinds.node_hardware import Capabilities, NodeHardware, NodeHardwareSpec
from joulie_core.names import NodeName
from joulie_core.node import Node

INVENTORY = Inventory.load()
[VERSION] = manifest(NodeHardware)["spec"]["versions"]
#: Structural schemas are written as in draft 4, where `exclusiveMinimum` is a boolean.
SCHEMA = Draft4Validator(VERSION["schema"]["openAPIV3Schema"])
NODE = Node(NodeName("n1"), labels={}, allocatable={"cpu": "8"})
HOST = HostFacts(
    identity=CpuIdentity(),
    packages=1,
    cores=8,
    threads=16,
    offline_cpus=(),
    hybrid=False,
    driver_family="",
    policies=0,
    lowest_khz=None,
    base_khz=None,
    highest_khz=None,
    zones=(),
    min_package_watts=None,
    max_package_watts=None,
    memory_bytes=None,
    warnings=(),
)
GPU = GpuDeviceInfo("GPU-a", 0, Vendor.NVIDIA, model="NVIDIA L40S", min_mw=100_000, max_mw=350_000)


def published(facts, node=NODE):
    """The object as it is sent."""
    status = Discoverer(INVENTORY).discover(node, facts, Capabilities()).status
    sent = NodeHardware(spec=NodeHardwareSpec(node_name=node.name), status=status).dump()
    read = msgspec.json.decode(msgspec.json.encode(sent))
    SCHEMA.validate(read)
    return read["status"]


def on_host(cpu=HOST, gpus=(), on_bus=None):
    can = {"control_available": True, "telemetry_available": True}
    return HardwareFacts(
        describe_cpu(cpu, INVENTORY, **can), describe_gpus(gpus, INVENTORY, on_bus=on_bus, **can), describe_memory(cpu)
    )


def test_a_model_name_beyond_the_limit_is_cut_and_marked():
    name = "Intel(R) Xeon(R) " + "9" * 2000
    cpu = published(on_host(replace(HOST, identity=CpuIdentity(model_name=name))))["cpu"]
    assert (len(cpu["rawModel"]), cpu["rawModel"][-1]) == (1024, "…")
    assert (len(cpu["model"]), cpu["model"][-1]) == (253, "…")


def test_warnings_of_many_gpus_are_summed_up_after_as_many_as_fit():
    gpus = [replace(GPU, uuid=f"GPU-{index}", index=index, max_mw=None) for index in range(100)]
    gpu = published(on_host(gpus=gpus))["gpu"]
    assert (gpu["count"], len(gpu["devices"]), len(gpu["warnings"])) == (100, 64, 64)
    assert gpu["warnings"][0] == "GPU 0: the driver offers no power limit"
    assert gpu["warnings"][-1] == "and 37 more warnings"


def test_gpus_over_http_beyond_the_limit_are_counted_before_they_are_cut():
    devices = [{"uuid": f"GPU-{index}", "index": index} for index in range(100)]
    raw = msgspec.json.encode({"gpu": {"present": True, "model": "x" * 300, "devices": devices}})
    gpu = published(parse_telemetry(raw).facts)["gpu"]
    assert (gpu["count"], len(gpu["devices"])) == (100, 64)


@pytest.mark.parametrize(
    "raw", [b'{"memory": {"totalBytes": 1e30}}', b'{"memory": {"totalBytes": 99999999999999999999}}']
)
def test_a_memory_that_no_machine_has_is_no_fact(raw):
    assert published(parse_telemetry(raw).facts).get("memory") is None


def test_figures_of_a_backend_that_no_machine_has_are_unknown_and_leave_those_of_the_inventory():
    raw = json.dumps(
        {
            "cpu": {
                "rawModel": "AMD EPYC 7763 64-Core Processor",
                "sockets": 2**63 - 1,
                "threads": 10**12,
                "capRange": {"minWattsPerSocket": 1e308, "maxWattsPerSocket": 1e308},
                "landmarks": {"baseFreqMHz": 1e300},
            },
            "gpu": {"rawModel": "NVIDIA L40S", "count": 10**9, "capRangePerGpu": {"minWatts": 0, "maxWatts": 1e308}},
        }
    ).encode()
    found = published(parse_telemetry(raw).facts)
    assert found["cpu"]["capRange"]["maxWattsPerSocket"] == 280
    assert (found["cpu"]["sockets"], found["cpu"]["threads"]) == (1, 0)
    assert (found["gpu"]["count"], found["gpu"]["capRangePerGpu"]["maxWatts"]) == (1, 350)
    assert found["quality"]["overall"] == "heuristic"
    assert [each for each in found["quality"]["warnings"] if "beyond" in each] == [
        "sockets 9.22337e+18 is beyond 1024, and taken for unknown",
        "threads 1e+12 is beyond 65536, and taken for unknown",
        "minWattsPerSocket 1e+308 is beyond 10000, and taken for unknown",
        "maxWattsPerSocket 1e+308 is beyond 10000, and taken for unknown",
        "baseFreqMHz 1e+300 is beyond 100000, and taken for unknown",
        "count 1e+09 is beyond 1024, and taken for unknown",
        "maxWatts 1e+308 is beyond 10000, and taken for unknown",
    ]


def test_a_fact_of_a_backend_that_does_not_fit_its_schema_is_told_at_the_object():
    found = published(parse_telemetry(b'{"cpu": {"sockets": "two"}, "gpu": null}').facts)
    assert [each for each in found["quality"]["warnings"] if "CpuHardware" in each and "sockets" in each]
    assert not [each for each in found["quality"]["warnings"] if "GpuHardware" in each]
    known = published(parse_telemetry(b'{"cpu": {"sockets": 2}}').facts)["quality"]["warnings"]
    assert not [each for each in known if "Hardware" in each or "beyond" in each]


def test_of_many_figures_the_first_are_told():
    devices = [{"uuid": f"GPU-{index}", "index": index, "max": 1e9} for index in range(60)]
    facts = parse_telemetry(msgspec.json.encode({"gpu": {"present": True, "devices": devices}})).facts
    assert len(facts.dropped) == 16


def test_a_figure_of_more_digits_than_a_float_has_is_told():
    (dropped,) = parse_telemetry(b'{"cpu": {"threads": ' + b"9" * 400 + b"}}").facts.dropped
    assert "threads" in dropped or "CpuHardware" in dropped


def test_a_count_beside_no_gpu_is_not_published():
    raw = b'{"gpu": {"present": false, "count": 4, "devices": [{"uuid": "GPU-a", "index": 0}]}}'
    gpu = published(parse_telemetry(raw).facts)["gpu"]
    assert (gpu["present"], gpu["count"], gpu["devices"]) == (False, 0, [])


@pytest.mark.parametrize("quantity", ["9Ei", "1e30", "65537", "-1"])
def test_allocatable_cpus_that_no_machine_has_are_unknown(quantity):
    node = replace(NODE, allocatable={"cpu": quantity, "memory": quantity})
    assert "cpu" not in published(HardwareFacts(), node)


@pytest.mark.parametrize("quantity", ["9Ei", "2Pi", "-1"])
def test_allocatable_memory_that_no_machine_has_is_unknown(quantity):
    assert "memory" not in published(HardwareFacts(), replace(NODE, allocatable={"memory": quantity}))


@pytest.mark.parametrize("poison", ["\x9b31m", "\x7f", "\x00", "\u202e", "\n"])
def test_texts_of_hardware_are_made_printable(poison):
    text = f"NVIDIA L40S{poison}x"
    facts = on_host(
        replace(HOST, identity=CpuIdentity(model_name=text), warnings=(text,), driver_family=text),
        [replace(GPU, uuid=text, model=text, partition_modes=(text,), partitioned=True)],
    )
    sent = msgspec.json.encode(published(facts)).decode()
    assert sent.isprintable()
    answer = {"cpu": {"rawModel": text, "warnings": [text]}, "gpu": {"rawModel": text, "vendor": text}}
    assert msgspec.json.encode(published(parse_telemetry(json.dumps(answer).encode()).facts)).decode().isprintable()


def repeated(each, counts):
    """Long values of few choices, which are cheap to make."""
    return st.builds(lambda value, count: (value * count)[:count], each, st.sampled_from(counts))


long_text = repeated(st.text(min_size=1, max_size=4), [0, 1, 40, 253, 254, 1024, 1025])
long_lists = st.one_of(
    repeated(st.lists(st.text(max_size=3), min_size=1, max_size=2), [0, 1, 32, 33, 64, 65, 100]),
    st.lists(long_text, max_size=2),
)
models = st.one_of(long_text, st.builds("NVIDIA {}".format, long_text), st.builds("Intel Xeon {}".format, long_text))
refusals = st.none() | st.builds(HardwareFailure, st.just(Reason.DEVICE_LOST), long_text)
devices = st.builds(
    GpuDeviceInfo,
    uuid=long_text,
    index=st.integers(0, 200),
    vendor=st.sampled_from(Vendor),
    model=models,
    min_mw=st.none() | st.integers(0, 10**6),
    max_mw=st.none() | st.integers(0, 10**6),
    partitioned=st.sampled_from([None, True, False]),
    partition_modes=long_lists.map(tuple),
    failure=refusals,
)
hosts = st.builds(
    replace,
    st.just(HOST),
    identity=st.builds(CpuIdentity, vendor=long_text, model_name=models),
    driver_family=long_text,
    packages=st.sampled_from([0, 1, 8, 10**6]),
    cores=st.sampled_from([0, 1, 2000, 10**9]),
    threads=st.sampled_from([0, 4, 4000, 2**63]),
    max_package_watts=st.sampled_from([None, 0.5, 500.0, 1e308]),
    warnings=long_lists.map(tuple),
    memory_bytes=st.none() | st.integers(0, 2**60),
)
buses = st.none() | st.builds(
    PciGpus, st.dictionaries(st.sampled_from(["NVIDIA", "AMD", "Intel"]), st.integers(1, 100))
)
gpu_lists = repeated(st.lists(devices, min_size=1, max_size=2), [0, 1, 2, 65])
nodes = st.builds(
    Node,
    st.just(NodeName("n1")),
    labels=st.dictionaries(
        st.sampled_from(["joulie.io/hw.cpu-model", "nvidia.com/gpu.product", "joulie.io/hw.gpu-count"]),
        st.text("ABCXYZ0189-_.", max_size=63) | st.sampled_from(["NVIDIA-L4", "8"]),
    ),
    allocatable=st.dictionaries(
        st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.sampled_from(["0", "8", "64Gi", "9Ei", "-5", "x"])
    ),
)


@given(hosts, gpu_lists, buses, nodes)
def test_the_facts_of_any_machine_become_an_object_that_the_api_server_accepts(host, gpus, bus, node):
    published(on_host(host, gpus, bus), node)


numbers = st.one_of(st.integers(-5, 10**22), st.floats(allow_nan=False), st.booleans(), st.none(), st.text(max_size=3))
values = st.one_of(numbers, long_text, long_lists)
answers = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.dictionaries(
            st.sampled_from(["rawModel", "model", "vendor", "sockets", "totalCores", "threads", "warnings"]),
            values,
        )
        | st.fixed_dictionaries(
            {"capRange": st.fixed_dictionaries({"minWattsPerSocket": numbers, "maxWattsPerSocket": numbers})}
        ),
        "gpu": st.dictionaries(
            st.sampled_from(["present", "rawModel", "model", "vendor", "count", "warnings", "currentCapWatts"]), values
        ),
        "memory": st.dictionaries(st.just("totalBytes"), numbers),
    },
)


@given(answers, nodes)
def test_the_facts_of_any_backend_become_an_object_that_the_api_server_accepts(answer, node):
    read = parse_telemetry(json.dumps(answer).encode())
    published(getattr(read, "facts", HardwareFacts()), node)
