"""The KubeSchedulerConfiguration that Joulie ships, with the reason for each value that is not a default."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """What one may want to change about the scheduler.

    Attributes:
        extender_timeout_s: how long kube-scheduler waits for an answer. It schedules one pod at a time and asks twice
            per pod, so an extender that hangs costs up to twice this for every pod until it is gone or answers. An
            answer takes milliseconds even for thousands of nodes; 1 s forgives a busy machine and no more.
            (kube-scheduler's own default is 5 s.)
        percentage_of_nodes_to_score: 100 hands every feasible node to the extender. With the default (0, adaptive)
            kube-scheduler stops looking once it has found enough: of 300 feasible nodes it offers 144, of 1,000 420,
            of 5,000 500, so the best node is often not on the list. Both have their price, which `bench/scheduler`
            measures: means of two waves (300 nodes, all: one) of mixed pods on mixed nodes, on two cores that run the
            whole control plane and the nodes besides. The watts are those that the wave adds by CPUs.

            | nodes | candidates | pods/s | of no extender | kW without | kW with |
            | 300   | sample     | 152    | 0.69           |            | 7.3     |
            | 300   | all        | 81     | 0.36           |            | 4.6     |
            | 1,000 | sample     | 112    | 0.72           | 14.0       | 9.2     |
            | 1,000 | all        | 87     | 0.53           | 14.1       | 8.4     |

            All nodes are shipped: watts are drawn for as long as the pods run, dozens of pods a second are more than
            most clusters of that size ever start, and two cores are the worst case. A cluster that starts hundreds of
            pods a second, or has thousands of nodes, sets 0: the sample then holds hundreds of nodes, and costs a tenth
            of the watts rather than a third. The watts of GPUs (50 to 58 kW more at 1,000 nodes) go by the model that a
            pod happens to get, with and without the extender.
        client_qps: requests per second to the API server. kube-scheduler's default of 50 would be what a benchmark on
            one machine measures.
    """

    extender_timeout_s: float = 1.0
    percentage_of_nodes_to_score: int = 100
    client_qps: int = 500


def scheduler_configuration(
    settings: SchedulerSettings, *, kubeconfig: str, extender_url: str | None
) -> dict[str, Any]:
    """The KubeSchedulerConfiguration as a mapping; without an extender where `extender_url` is None.

    Source: scheduler-extender document, KubeSchedulerConfiguration extender block.
    """
    configuration: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig, "qps": settings.client_qps, "burst": 2 * settings.client_qps},
        # One scheduler per cluster: an election would only delay the first pod.
        "leaderElection": {"leaderElect": False},
        "percentageOfNodesToScore": settings.percentage_of_nodes_to_score,
        "profiles": [{"schedulerName": "default-scheduler"}],
    }
    if extender_url is not None:
        configuration["extenders"] = [extender_block(extender_url, settings.extender_timeout_s)]
    return configuration


def extender_block(url: str, timeout_s: float) -> dict[str, Any]:
    """The entry under `extenders` that makes kube-scheduler ask Joulie."""
    return {
        "urlPrefix": url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": 1,
        "enableHTTPS": False,
        # Names go over the wire instead of whole nodes. With false, kube-scheduler also rebuilds the returned nodes
        # without their pods, so that its own resource plugins see every node as idle (kubernetes/kubernetes#141781).
        "nodeCacheCapable": True,
        # Without Joulie pods still schedule.
        "ignorable": True,
        "httpTimeout": f"{round(timeout_s * 1000)}ms",
    }
