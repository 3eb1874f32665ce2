"""Objects and conditions that several tests use."""

import time

from joulie_core.timestamps import rfc3339
from joulie_testing.api import make_node


def cap(watts, for_s=3600):
    return {"watts": watts, "expiresAt": rfc3339(time.time() + for_s, "seconds")}


def capped(cluster, watts):
    return lambda: (
        cluster.condition("Capped") == ("True", "InForce") and cluster.status()["cap"]["requestedWatts"] == watts
    )


def ready_node(boot_id, *, tainted=False):
    node = make_node("n1")
    if tainted:
        node["spec"]["taints"] = [{"key": "joulie.io/asleep", "effect": "NoSchedule"}]
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}]
    return node | {"status": {"conditions": conditions, "nodeInfo": {"bootID": boot_id}}}
