"""CPU time of decisions about sleep: 5,000 nodes of which 3,000 are asleep, 5,000 pods wait.

    just bench sleep
    just bench sleep --pods 400 --nodes 1000 --asleep 600

One row for each kind of pods: all alike, all different, bound to nodes, and such that fit nowhere. Nodes are also woken
as spare nodes. Rows that begin with `pass` are passes of the operator's controller, with ten pods on each node that is
awake, and have a second limit: the longest time that the event loop waits. Exit code 1 where a row is above a limit.
"""

import argparse
import gc
import logging
import random
import sys
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import structlog
from steps import PENDING, Passes

from joulie_core.kinds.node_bmc import PowerState
from joulie_core.names import NodeName
from joulie_core.pod import Requirement, SelectorOperator, Term
from joulie_core.sleep import (
    NodePowerFacts,
    SleepCluster,
    SleepNode,
    SleepPod,
    SleepRecord,
    SleepSettings,
    SleepState,
    decide,
)

LIMIT_S: Final = 0.5
BLOCK_LIMIT_S: Final = 0.05
#: When the garbage collector runs, as the operator has them.
_GC_THRESHOLDS: Final = (50_000, 20, 20)
_NOW_S: Final = 1e6
_HOST: Final = "kubernetes.io/hostname"


def _pod(cpu: float, selector: Mapping[str, str] | None = None, terms: tuple[Term, ...] | None = None) -> SleepPod:
    requests = {"cpu": cpu, "memory": 3.0 * cpu, "pods": 1.0}
    return SleepPod(requests=requests, node_selector=selector or {}, required_terms=terms)


def _requires(key: str, operator: SelectorOperator, *values: str) -> tuple[Term, ...]:
    return (Term(expressions=(Requirement(key, operator, values),)),)


#: The pod of each number, by the name of the row.
_PODS: Final[Mapping[str, Callable[[int], SleepPod]]] = MappingProxyType(
    {
        "alike": lambda _: _pod(4.0),
        "alike, room on nodes that are awake": lambda _: _pod(0.5),
        "of different sizes": lambda at: _pod(4.0 + at / 1000),
        "of different sizes, room on nodes that are awake": lambda at: _pod(0.1 + at / 2500),
        "each bound to a node": lambda at: _pod(4.0, {_HOST: f"n{at}"}),
        "each kept from a node": lambda at: _pod(4.0, terms=_requires(_HOST, SelectorOperator.NOT_IN, f"n{at}")),
        "without a node that admits them": lambda at: _pod(
            4.0 + at / 1000, terms=_requires("missing", SelectorOperator.EXISTS)
        ),
    }
)


def _node(at: int, chance: random.Random, *, asleep: bool) -> SleepNode:
    busy = {"cpu": chance.uniform(0, 3), "memory": chance.uniform(0, 60), "pods": 80.0}
    return SleepNode(
        name=NodeName(f"n{at}"),
        group=f"family{at % 5}",
        zone=f"zone{at % 3}",
        labels={_HOST: f"n{at}", "pool": f"pool{at % 7}"},
        free={"cpu": 64.0, "memory": 256.0, "pods": 110.0} if asleep else busy,
        idle_watts=100.0 + at % 5,
        ready=not asleep,
        cordoned=asleep,
        protected_pods=0 if asleep else 3,
        power=NodePowerFacts(
            state=PowerState.OFF if asleep else PowerState.ON,
            sampled_at_s=_NOW_S,
            reachable=True,
            wake_proven=True,
            off_allowed=True,
        ),
    )


def main() -> int:
    """Measure every row and return the exit code."""
    parser = argparse.ArgumentParser(prog="just bench sleep", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--asleep", type=int, default=3000, help="of the nodes (default 3000)")
    parser.add_argument("--pods", type=int, default=5000, help="that wait (default 5000)")
    asked = parser.parse_args()
    chance = random.Random(1)
    nodes = [_node(at, chance, asleep=at < asked.asleep) for at in range(asked.nodes)]
    records = {
        node.name: SleepRecord(
            state=SleepState.ASLEEP if at < asked.asleep else SleepState.AWAKE, since_s=_NOW_S - 5000.0
        )
        for at, node in enumerate(nodes)
    }
    slow = False
    print(f"{asked.nodes} nodes, {asked.asleep} asleep, {asked.pods} pods wait; limit {LIMIT_S * 1000:.0f} ms of CPU")
    for name, pod in _PODS.items():
        pending = [pod(number) for number in range(asked.pods)]
        began_s = time.process_time()
        decided = decide(SleepCluster(nodes=nodes, pending=pending), records, _NOW_S, SleepSettings())
        took_s = time.process_time() - began_s
        slow |= took_s > LIMIT_S
        woken = sum(record.state is SleepState.WAKING for record in decided.values())
        print(f"{name:50} {took_s * 1000:6.0f} ms {took_s / LIMIT_S:5.2f} of the limit, {woken} nodes woken")
    gc.set_threshold(*_GC_THRESHOLDS)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    passes = Passes(asked.nodes, asked.asleep)
    for name, pending_pod in PENDING.items():
        found = passes.measure(asked.pods, pending_pod)
        slow |= found.cpu_s > LIMIT_S or found.block_cpu_s > BLOCK_LIMIT_S
        print(
            f"{name:50} {found.cpu_s * 1000:6.0f} ms {found.cpu_s / LIMIT_S:5.2f} of the limit, {found.woken} nodes "
            f"woken; event loop held up for {found.block_cpu_s * 1000:.0f} ms of CPU at most, limit "
            f"{BLOCK_LIMIT_S * 1000:.0f} ms ({found.block_s * 1000:.0f} ms by the clock)"
        )
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
