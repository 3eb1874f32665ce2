"""CPU, memory and writes of the operator at 5,000 nodes and 50,000 pods, and how fast labels follow pods.

    just bench operator                          the table against its limits, and the write rate over time to out/
    just bench operator --nodes 500 --pods 5000  a smaller cluster, in half the time
    just bench operator --burst                  CPU and requests of each scheduled pod while no plan changes

The operator runs as it is shipped, on an API server in a third process that simulates a cluster: every node's agent
reports once a minute, pods come and go. Phases: convergence from nothing; rest; churn, in which 300 performance pods
leave draining nodes at random moments while others come, and the time from each pod to the node label that follows is
measured; a restart with a full pass every second, to measure the CPU of one pass. Takes about four minutes. Exit code 1
where a limit is missed.

The burst: 1,500 pods are bound to 1,000 nodes at 60 per second, run and end, and their nodes' power follows. CPU is
that of the operator's process, with what it does at rest: a new number in a twin replaces its heartbeat. With
`--nodes 10000` it also shows what many nodes cost: time of the first plan, of all writes, and memory.
"""

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import burst
import numpy as np
from matplotlib.figure import Figure
from scenario import Plan, serve
from service import Operator, run_operator

OUT = Path("out")
#: Demand decides, and each ten pods move one node.
POLICY = {"POLICY_TYPE": "queue_aware_v1", "QUEUE_HP_BASE_FRAC": "0.1", "QUEUE_PERF_PER_HP_NODE": "10"}
#: A pass each second and no twins in between: what the second operator spends, it spends on passes.
PASSES = {"RECONCILE_INTERVAL": "1s", "TWIN_INTERVAL": "1h", "TWIN_HEARTBEAT": "1h"}
PASSES_S = 20.0
#: One operator, on a machine that may be short of CPUs: its lease must not end.
LEASE = {"LEASE_DURATION": "180s", "LEASE_RENEW_DEADLINE": "120s"}
#: What the project holds itself to.
PLAN_CPU_S, MEMORY_MIB, LABEL_P99_S, POD_CPU_MS = 1.0, 400.0, 2.0, 1.0
HEARTBEATS = {"Lease", "NodeTwin/status"}


@dataclass
class Table:
    """Rows with limits."""

    met: bool = True

    def row(self, what: str, value: float, unit: str, limit: float | None = None) -> None:
        """Print a value, and whether it is within its limit."""
        result = "" if limit is None else ("ok" if value < limit else "MISSED") + f" (limit {limit:g} {unit})"
        self.met &= limit is None or value < limit
        print(f"{what:52} {value:10.3f} {unit:6} {result}", flush=True)


def counts(writes: Counter[str]) -> str:
    """Return the writes by kind, most first."""
    return ", ".join(f"{what} {count}" for what, count in writes.most_common()) or "none"


def measure(operator: Operator, plan: Plan, channel: Any, table: Table) -> None:
    """Follow the first operator through its phases."""
    took_s, writes, draining = channel.recv()
    print(f"converged: {counts(writes)}; {draining} nodes draining")
    table.row("from start to every node published", took_s, "s")
    table.row("writes per second while converging", writes.total() / took_s, "1/s")
    cpu_s, started_at = operator.cpu_s, time.monotonic()
    channel.send("rest")
    writes = channel.recv()
    print(f"at rest for {plan.rest_s:g} s: {counts(writes)}")
    table.row("writes per second at rest", writes.total() / plan.rest_s, "1/s")
    table.row("writes at rest that are no heartbeats", sum(writes[k] for k in writes.keys() - HEARTBEATS), "", 1)
    table.row("CPU at rest", 100 * (operator.cpu_s - cpu_s) / (time.monotonic() - started_at), "%")
    cpu_s, started_at = operator.cpu_s, time.monotonic()
    channel.send("churn")
    for cause, latencies in channel.recv().items():
        if not latencies:
            print(f"label after {cause}: it did not happen, the cluster is too small")
            continue
        table.row(f"label after {cause}, p50 of {len(latencies)}", float(np.quantile(latencies, 0.5)), "s")
        table.row("    p99", float(np.quantile(latencies, 0.99)), "s", LABEL_P99_S)
    table.row("CPU while pods come and go", 100 * (operator.cpu_s - cpu_s) / (time.monotonic() - started_at), "%")
    passes, seconds = operator.plans()
    table.row(f"time of one plan, mean of {passes}", seconds / passes, "s", PLAN_CPU_S)
    table.row("resident memory", operator.resident_mib, "MiB", MEMORY_MIB)
    table.row("    peak", operator.peak_mib, "MiB", MEMORY_MIB)


def measure_passes(operator: Operator, table: Table) -> None:
    """Measure the CPU of a pass over all nodes: policy, desired states, and the comparison with what is published."""
    time.sleep(5)
    cpu_s, (passes, _) = operator.cpu_s, operator.plans()
    time.sleep(PASSES_S)
    spent_s, done = operator.cpu_s - cpu_s, operator.plans()[0] - passes
    table.row(f"CPU of a full pass over all nodes ({done})", spent_s / done, "s", PLAN_CPU_S)


def plot(writes: dict[tuple[int, str], int], directory: Path) -> Path:
    """Draw the write rate over time."""
    kinds = sorted({what for _, what in writes})
    seconds = range(max(second for second, _ in writes) + 1)
    figure = Figure(figsize=(9, 5))
    axes = figure.subplots()
    axes.stackplot(seconds, [[writes.get((second, kind), 0) for second in seconds] for kind in kinds], labels=kinds)
    axes.set(xlabel="seconds since the start", ylabel="writes per second", title="joulie-operator")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    directory.mkdir(exist_ok=True)
    path = directory / "operator-writes.png"
    figure.savefig(path, dpi=150, bbox_inches="tight")
    return path


def run(plan: Plan, directory: Path) -> bool:
    """Run everything; True when all limits are met."""
    context = multiprocessing.get_context("spawn")
    channel, theirs = context.Pipe()
    api = context.Process(target=serve, args=(plan, directory, theirs), daemon=True)
    api.start()
    table = Table()
    kubeconfig = channel.recv()
    print(f"{plan.nodes} nodes, {plan.pods} pods", flush=True)
    with run_operator(kubeconfig, POLICY) as operator:
        measure(operator, plan, channel, table)
    channel.send("restart")
    with run_operator(kubeconfig, POLICY | PASSES) as operator:
        measure_passes(operator, table)
        channel.send("count")
        writes, rate = channel.recv()
    print(f"restarted: {counts(writes)}")
    table.row("most writes in one second", max(_by_second(rate).values()), "1/s")
    print(plot(rate, OUT))
    channel.send("stop")
    api.join(10)
    return table.met


def run_burst(plan: burst.BurstPlan, directory: Path) -> bool:
    """Run the burst; True when all limits are met."""
    context = multiprocessing.get_context("spawn")
    channel, theirs = context.Pipe()
    api = context.Process(target=burst.serve, args=(plan, directory, theirs), daemon=True)
    api.start()
    table = Table()
    kubeconfig = channel.recv()
    print(f"{plan.nodes} nodes, {plan.pods} pods at {plan.pods_per_s:g} per second", flush=True)
    started_at = time.monotonic()
    with run_operator(kubeconfig, LEASE) as operator:
        table.row("from start to the first plan", operator.planned_s, "s")
        channel.recv()
        table.row("from start to every node published", time.monotonic() - started_at - burst.QUIET_S, "s")
        table.row("    CPU per node", 1e3 * operator.cpu_s / plan.nodes, "ms")
        count, total_s = operator.plans()
        table.row("    seconds of each plan", total_s / count, "s")
        phases = [_phase(operator, channel, number) for number in range(4)]
        table.row("resident memory", operator.resident_mib, "MiB")
        table.row("    most", operator.peak_mib, "MiB")
    rest, bound, settled, left = phases
    table.row("CPU at rest", 100 * rest.cpu_s / rest.took_s, "%")
    print(f"    {counts(rest.requests)}")
    for what, phase, limit in (("burst", bound, POD_CPU_MS), ("after it", settled, None), ("end", left, None)):
        table.row(f"{what}: CPU per pod", 1e3 * phase.cpu_s / plan.pods, "ms", limit)
        table.row("    requests per pod", phase.requests.total() / plan.pods, "")
        print(f"    {counts(phase.requests)} in {phase.took_s:.0f} s")
    api.join(10)
    return table.met


@dataclass(frozen=True)
class Phase:
    """Resources that the operator used in one phase."""

    took_s: float
    cpu_s: float
    requests: Counter[str]


def _phase(operator: Operator, channel: Any, number: int) -> Phase:
    if number > 0:
        channel.recv()
    channel.send("go")
    cpu_s, started_at = operator.cpu_s, time.monotonic()
    requests = channel.recv()
    return Phase(time.monotonic() - started_at, operator.cpu_s - cpu_s, requests)


def _by_second(writes: dict[tuple[int, str], int]) -> Counter[int]:
    found: Counter[int] = Counter()
    for (second, _), count in writes.items():
        found[second] += count
    return found


def main() -> int:
    """Run the bench; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, help="managed nodes; 5,000, or 1,000 in a burst")
    parser.add_argument("--pods", type=int, help="pods, a fifth of them performance; 50,000, or 1,500 in a burst")
    parser.add_argument("--burst", action="store_true", help="a burst of pods while no plan changes")
    parser.add_argument("--pods-per-s", type=float, default=60, help="rate of the burst")
    parser.add_argument("--rest-s", type=float, default=60, help="seconds of rest")
    parser.add_argument("--churn-s", type=float, default=60, help="seconds of coming and going")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        if options.burst:
            plan = burst.BurstPlan(options.nodes or 1_000, options.pods or 1_500, options.pods_per_s, options.rest_s)
            met = run_burst(plan, Path(directory))
        else:
            met = run(
                Plan(options.nodes or 5_000, options.pods or 50_000, options.rest_s, options.churn_s), Path(directory)
            )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
