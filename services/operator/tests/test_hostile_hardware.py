"""NodeHardware that describes no machine: the operator serves the other nodes, and that one by what else is known."""

import pytest

ENDLESS = 1.7e308
CPU = {"model": "AMD EPYC 7763", "sockets": 2, "totalCores": 128}
GPU = {"model": "NVIDIA H100 80GB HBM3", "vendor": "nvidia", "present": True, "count": 8}
IMPOSSIBLE = {
    "watts of a socket": {"cpu": CPU | {"capRange": {"minWattsPerSocket": 90, "maxWattsPerSocket": ENDLESS}}},
    "least watts of a socket": {
        "cpu": CPU | {"capRange": {"minWattsPerSocket": ENDLESS, "maxWattsPerSocket": ENDLESS}}
    },
    "watts of a GPU": {
        "cpu": CPU,
        "gpu": GPU | {"capRangePerGpu": {"minWatts": 1, "maxWatts": ENDLESS, "defaultWatts": ENDLESS}},
    },
    "sockets": {"cpu": CPU | {"sockets": 2**63 - 1}},
    "cores": {"cpu": CPU | {"totalCores": 2**63 - 1}},
    "cores of a socket": {"cpu": {"model": CPU["model"], "sockets": 2**62, "coresPerSocket": 2**62}},
    "threads": {"cpu": CPU | {"threads": 2**63 - 1}},
    "frequency": {"cpu": CPU | {"driverInfo": {}, "landmarks": {"baseFreqMHz": ENDLESS}}},
    "GPUs": {"cpu": CPU, "gpu": GPU | {"count": 2**63 - 1}},
}


def hardware(name, status):
    return {
        "apiVersion": "joulie.io/v1alpha1",
        "kind": "NodeHardware",
        "metadata": {"name": name},
        "spec": {"nodeName": name},
        "status": status,
    }


@pytest.mark.parametrize("status", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
async def test_impossible_hardware_of_one_node_keeps_no_node_from_being_served(cluster, mixed, status):
    for node in mixed[:6]:
        cluster.api.put(node)
    cluster.api.put(hardware("new-0", status))
    operator = cluster.start()
    await cluster.until(cluster.settled)
    await cluster.until(lambda: all(cluster.twin(name) for name in cluster.views()))
    assert "joulie_internal_errors_total{" not in await operator.metrics()
    known = cluster.twin("new-1")["powerMeasurement"]["cpuTdpW"]
    assert cluster.twin("new-0")["powerMeasurement"]["cpuTdpW"] == known
