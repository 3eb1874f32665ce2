"""The KubeSchedulerConfiguration that Joulie ships, with the reason for each value that is not a default."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """Settings of kube-scheduler.

    Attributes:
        extender_timeout_s: timeout of a request to the extender. kube-scheduler schedules one pod at a time and calls
            the extender twice per pod, so a hanging extender delays every pod by up to twice this time until it exits
            or responds. A response takes milliseconds even for thousands of nodes; 1 s tolerates a busy machine.
            (kube-scheduler's own default is 5 s.)
        percentage_of_nodes_to_score: 100 passes every feasible node to the extender. With the default (0, adaptive)
            kube-scheduler stops when it has found enough feasible nodes: 144 of 300, 420 of 1,000, 500 of 5,000. The
            best node is then often not among them. `bench/scheduler` measures the cost of both: means of two waves
            (300 nodes, all: one) of mixed pods on mixed nodes, on two cores that also run the whole control plane and
            the simulated nodes. The power is what the CPUs draw in addition because of the wave.

            | nodes | candidates | pods/s | of no extender | kW without | kW with |
            | 300   | sample     | 152    | 0.69           |            | 7.3     |
            | 300   | all        | 81     | 0.36           |            | 4.6     |
            | 1,000 | sample     | 112    | 0.72           | 14.0       | 9.2     |
            | 1,000 | all        | 87     | 0.53           | 14.1       | 8.4     |

            100 is shipped: power is drawn for as long as the pods run, most clusters of that size never start dozens of
            pods per second, and two cores are the worst case. A cluster that starts hundreds of pods per second, or has
            thousands of nodes, sets 0: the sample then contains hundreds of nodes, and costs a tenth of the power
            rather than a third, and its performance pods need a node affinity against eco nodes, as a sample may
            contain no node that the extender accepts. The power of GPUs (50 to 58 kW more at 1,000 nodes) depends on
            the model that a pod happens to get, with and without the extender.
        packing: whether nodes that have more pods score higher (`MostAllocated`); by default those that have fewer do.
        client_qps: requests per second to the API server. With kube-scheduler's default of 50, a benchmark on one
            machine would measure this limit.
    """

    extender_timeout_s: float = 1.0
    percentage_of_nodes_to_score: int = 100
    packing: bool = False
    client_qps: int = 500


def scheduler_configuration(
    settings: SchedulerSettings, *, kubeconfig: str, extender_url: str | None
) -> dict[str, Any]:
    """Return the KubeSchedulerConfiguration, without an extender if `extender_url` is None."""
    profile: dict[str, Any] = {"schedulerName": "default-scheduler"}
    if settings.packing:
        strategy = {"type": "MostAllocated"}
        profile["pluginConfig"] = [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]
    configuration: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig, "qps": settings.client_qps, "burst": 2 * settings.client_qps},
        # One scheduler per cluster: a leader election would only delay the first pod.
        "leaderElection": {"leaderElect": False},
        "percentageOfNodesToScore": settings.percentage_of_nodes_to_score,
        "profiles": [profile],
    }
    if extender_url is not None:
        configuration["extenders"] = [extender_block(extender_url, settings.extender_timeout_s)]
    return configuration


def extender_block(url: str, timeout_s: float) -> dict[str, Any]:
    """Return the entry under `extenders` that makes kube-scheduler call Joulie's extender."""
    return {
        "urlPrefix": url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": 1,
        "enableHTTPS": False,
        # Requests contain node names instead of Node objects. With false, kube-scheduler also rebuilds the returned
        # nodes without their pods, so that its resource plugins treat every node as idle
        # (kubernetes/kubernetes#141781).
        "nodeCacheCapable": True,
        # Pods are still scheduled while the extender is not available.
        "ignorable": True,
        "httpTimeout": f"{round(timeout_s * 1000)}ms",
    }
