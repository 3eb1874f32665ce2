from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.hardware.density import Density, density
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import view_from_node
from joulie_core.node import Node

INVENTORY = Inventory.load()


def view(cpu=None, sockets=1, cores=None, gpu=None, count=0):
    labels = {}
    if cpu:
        labels |= {"joulie.io/hw.cpu-model": cpu, "joulie.io/hw.cpu-sockets": str(sockets)}
    if cores:
        labels["joulie.io/hw.cpu-cores"] = str(cores)
    if gpu:
        labels |= {"joulie.io/hw.gpu-model": gpu, "joulie.io/hw.gpu-count": str(count)}
    return view_from_node(Node("n", labels=labels), INVENTORY)


def test_the_reference_node_and_gpu_have_density_one():
    assert density(view("AMD EPYC 7763", sockets=2, cores=128)).total == pytest.approx(1)
    assert density(view("AMD EPYC 7763", 2, 128, "NVIDIA-A100-SXM4-80GB", 1)) == Density(
        pytest.approx(1), pytest.approx(1)
    )


def test_cpu_density_is_cores_by_base_frequency_by_ipc_class():
    expected = 192 * 2.4 * 1.36 / (128 * 2.45 * 1.19)
    assert density(view("AMD EPYC 9654", 2, 192)).cpu == pytest.approx(expected)


def test_gpu_density_is_the_sum_over_gpus():
    assert density(view("AMD EPYC 9654", 2, 192, "NVIDIA H100 SXM", 8)).gpu == pytest.approx(8 * 989 / 312)


def test_nothing_known_is_density_zero():
    assert density(view()) == Density(0, 0)


gpus = st.sampled_from(sorted(INVENTORY.gpus))
cpus = st.sampled_from(sorted(INVENTORY.cpus))


@given(cpus, st.integers(1, 4), gpus, st.integers(1, 16))
def test_a_gpu_node_outranks_the_cpu_node_of_the_same_cpu(cpu, sockets, gpu, count):
    with_gpu, without = view(cpu, sockets, gpu=gpu, count=count), view(cpu, sockets)
    assert density(with_gpu).total > density(without).total > 0
    assert density(with_gpu).cpu == density(without).cpu


@given(cpus, st.integers(1, 200), st.integers(1, 200))
def test_density_grows_with_cores(cpu, one, other):
    low, high = sorted((one, other))
    assert density(view(cpu, cores=low)).total <= density(view(cpu, cores=high)).total


@given(cpus, gpus)
def test_density_does_not_depend_on_caps(cpu, gpu):
    whole = view(cpu, gpu=gpu, count=2)
    capped = replace(whole, cpu=replace(whole.cpu, max_watts_per_socket=1.0), gpu=replace(whole.gpu, max_watts=1.0))
    assert density(capped) == density(whole)
