"""Latency of the extender for kube-scheduler: round trips of /filter and /prioritize, measured from another process.

    just bench extender                     the table against its limits
    just bench extender --plot              also latency over the number of nodes, in both modes, to out/
    just bench extender --replay            pods with their requests and watch events: CPU per pod, and pods a second
    just bench extender --peer http://host:port   the same bytes alternately to another server, and the ratio

The extender runs unmodified and watches an API server with as many nodes, twins and hardware objects as the requests
name, while twins are rewritten as by an operator. Every request is for another pod and has its nodes in another order.
The column "cpu" is the extender's CPU time per request, on which other load on the machine has far less effect than on
the round trips. Exit code 1 if a limit is missed.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

import numpy as np
from client import Client, Probe
from cluster import compact, full_node, names_bodies, node_names, nodes_body
from matplotlib.figure import Figure
from prometheus_client.parser import text_string_to_metric_families
from replay import HEADER as HEADER_OF_REPLAY
from replay import measure as replay_figures
from replay import run_replay
from service import Extender, run_extender
from shares import draw

NODES = 5_000
OUT = Path("out")
SIZES = (100, 200, 500, 1_000, 2_000, 5_000, 10_000)
#: Twins of 5,000 nodes rewritten once a minute.
TWINS_PER_S = 83.0
#: CPU time of the extender per pod, both requests and all watch events, with kube-scheduler's sample of the nodes.
CPU_MS_A_POD = 1.2


@dataclass(frozen=True)
class Case:
    """One kind of request, repeated."""

    title: str
    path: str
    #: Sent in turn.
    bodies: Sequence[bytes]
    rounds: int
    #: Limits in milliseconds.
    p50_ms: float | None = None
    p99_ms: float | None = None
    stall_ms: float | None = None
    #: Time that 99 % of the requests may take from the first byte to the reply, by a bound of the service's own
    #: histogram.
    service_ms: float | None = None
    #: Bytes that must be in the answer.
    echo: bytes = b""


@dataclass
class Result:
    """Round trips in milliseconds, sorted."""

    case: Case
    times_ms: list[float] = field(default_factory=list)
    stall_ms: float | None = None
    #: CPU time of the extender per request; unlike the round trip hardly affected by other load on the machine.
    cpu_ms: float | None = None
    #: Share of the requests that took no longer than `service_ms`.
    within_service: float | None = None

    def quantile(self, share: float) -> float:
        """Return the quantile of the round-trip times."""
        return float(np.quantile(self.times_ms, share))

    @property
    def missed(self) -> list[str]:
        """Limits that were not met."""
        case = self.case
        figures = (
            ("p50", self.quantile(0.5), case.p50_ms),
            ("p99", self.quantile(0.99), case.p99_ms),
            ("stall", self.stall_ms, case.stall_ms),
        )
        missed = [
            f"{name} {figure:.1f} > {limit:g} ms"
            for name, figure, limit in figures
            if figure is not None and limit is not None and figure > limit
        ]
        if self.within_service is not None and self.within_service < 0.99:
            missed.append(f"service time over {case.service_ms:g} ms in {1 - self.within_service:.2%}")
        return missed

    def line(self) -> str:
        """One row of the table."""
        stall = f"{self.stall_ms:8.1f}" if self.stall_ms is not None else " " * 8
        met = "ok"
        if self.within_service is not None:
            met += f", service time within {self.case.service_ms:g} ms in {self.within_service:.2%}"
        result = ", ".join(self.missed) or met
        size_mb = len(self.case.bodies[0]) / 1e6
        return (
            f"{self.case.title:44} {size_mb:7.2f} {len(self.times_ms):6} {self.quantile(0.5):8.2f} "
            f"{self.quantile(0.99):8.2f} {max(self.times_ms):8.2f} {self.cpu_ms or 0:8.2f} {stall}  {result}"
        )


HEADER = (
    f"{'case':44} {'MB':>7} {'n':>6} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8} {'cpu ms':>8} {'stall ms':>8}  limit"
)


def cases(rounds: int) -> list[Case]:
    """Return the rows of the table, with their limits."""
    names = node_names(NODES)
    nodes = [compact(full_node(name)) for name in names]
    few = max(10, rounds // 50)
    full = nodes_body(nodes, "standard")
    standard, performance = names_bodies(names, "standard"), names_bodies(names, "performance")
    unlike = names_bodies(names, "standard", unlike=True)
    picky = nodes_body(nodes, "performance")
    return [
        Case("prioritize, 5,000 names, standard", "/prioritize", standard, rounds, 2.0, 4.0),
        Case("prioritize, 5,000 names, performance", "/prioritize", performance, rounds, 2.0, 4.0),
        Case("prioritize, 5,000 names, no two pods alike", "/prioritize", unlike, rounds),
        Case("prioritize, 500 names", "/prioritize", names_bodies(names[:500], "standard"), rounds, service_ms=1.0),
        Case("filter, 5,000 names, standard", "/filter", standard, rounds),
        Case("filter, 5,000 names, performance", "/filter", performance, rounds),
        Case("prioritize, 5,000 full nodes", "/prioritize", [full], few, 110.0, None, 60.0),
        Case("filter, 5,000 full nodes, standard", "/filter", [full], few, stall_ms=60.0, echo=b",".join(nodes)),
        Case("filter, 5,000 full nodes, performance", "/filter", [picky], few, stall_ms=60.0),
    ]


@dataclass(frozen=True)
class _Histogram:
    """Requests that the service has counted, all and those within the limit."""

    count: float
    within: float

    @classmethod
    def read(cls, extender: Extender, case: Case) -> "_Histogram | None":
        """Return the current count of a case's requests; None if the case has no limit."""
        if case.service_ms is None:
            return None
        count = within = 0.0
        for family in text_string_to_metric_families(extender.scrape()):
            if family.name == f"joulie_scheduler_{case.path[1:]}_duration_seconds":
                for sample in family.samples:
                    if sample.name.endswith("_count"):
                        count += sample.value
                    elif float(sample.labels.get("le", "inf")) == case.service_ms / 1e3:
                        within += sample.value
        return cls(count, within)

    def share_since(self, extender: Extender, case: Case) -> float:
        """Share within the limit of what was counted since this was read."""
        now = self.read(extender, case)
        assert now
        return (now.within - self.within) / (now.count - self.count)


def measure(case: Case, extender: Extender, clients: Sequence[Client]) -> list[Result]:
    """Send the same bytes to each server in turn; of the first, the extender, measure also CPU time and stalls."""
    results = [Result(case) for _ in clients]
    bodies = cycle(case.bodies)
    for body in islice(bodies, max(3, case.rounds // 10)):
        for client in clients:
            client.post(case.path, body)
    cpu_s, histogram = extender.cpu_s, _Histogram.read(extender, case)
    for body in islice(bodies, case.rounds):
        for client, result in zip(clients, results, strict=True):
            took, answer = client.post(case.path, body)
            result.times_ms.append(took * 1e3)
            if case.echo and case.echo not in answer:
                raise RuntimeError(f"{case.title}: nodes in the answer differ from those sent")
    results[0].cpu_ms = (extender.cpu_s - cpu_s) / case.rounds * 1e3
    if histogram:
        results[0].within_service = histogram.share_since(extender, case)
    if case.stall_ms is not None:
        with Probe(extender.url) as probe:
            for body in islice(bodies, 5):
                clients[0].post(case.path, body)
        results[0].stall_ms = probe.worst_s * 1e3
    return results


def compare(extender: Result, peer: Result) -> str:
    """Return the ratio of the peer's time to this one's, pair by pair: median and quartiles."""
    ratios = sorted(other / own for own, other in zip(extender.times_ms, peer.times_ms, strict=True))
    low, median, high = statistics.quantiles(ratios, n=4)
    return f"{'':44} peer/extender {median:.2f} (middle half {low:.2f}..{high:.2f})"


def print_table(extender: Extender, rounds: int, peer: str | None) -> bool:
    """Measure and print every case; True when all limits are met."""
    print(HEADER)
    met = True
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(url)) for url in (extender.url, peer) if url]
        for case in cases(rounds):
            results = measure(case, extender, clients)
            print(results[0].line(), flush=True)
            met &= not results[0].missed
            if peer:
                print(compare(*results), flush=True)
    print(f"resident memory {extender.rss_mib:.0f} MiB")
    return met


def plot(extender: Extender, rounds: int) -> Path:
    """Draw latency over the number of candidates, names and full nodes, and return where."""
    names = node_names(SIZES[-1])
    nodes = [compact(full_node(name)) for name in names]
    figure = Figure(figsize=(8, 5))
    axes = figure.subplots()
    with Client(extender.url) as client:
        for mode, color in (("names", "tab:blue"), ("full nodes", "tab:red")):
            medians, tails = [], []
            for size in SIZES:
                by_name = mode == "names"
                bodies = names_bodies(names[:size], "standard") if by_name else [nodes_body(nodes[:size], "standard")]
                count = rounds if by_name else max(10, min(rounds, 50_000 // size))
                (result,) = measure(Case(mode, "/prioritize", bodies, count), extender, [client])
                medians.append(result.quantile(0.5))
                tails.append(result.quantile(0.99))
                print(f"{mode:12} {size:6} p50 {medians[-1]:8.2f} ms  p99 {tails[-1]:8.2f} ms", flush=True)
            axes.loglog(SIZES, medians, "o-", color=color, label=f"{mode}, median")
            axes.loglog(SIZES, tails, "o:", color=color, label=f"{mode}, 99th percentile")
    axes.set(xlabel="candidate nodes", ylabel="/prioritize round trip, ms", title="joulie-extender, one core")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    OUT.mkdir(exist_ok=True)
    path = OUT / "extender-latency.png"
    figure.savefig(path, dpi=150, bbox_inches="tight")
    return path


def replay_pods(options: argparse.Namespace) -> bool:
    """Replay pods at every size and rate and print the figures; True where CPU time and rates were kept."""
    OUT.mkdir(exist_ok=True)
    print(HEADER_OF_REPLAY)
    kept = True
    for nodes in options.nodes:
        for rate in options.rate:
            stacks = OUT / f"extender-stacks-{nodes}.json"
            launcher = (str(Path(__file__).with_name("sampler.py")), str(stacks)) if options.profile else ()
            with run_replay(nodes, options.candidates, launcher) as (replay, extender):
                figures = replay_figures(
                    replay, extender, nodes=nodes, rate=rate, count=options.pods, profiled=options.profile
                )
            print(figures.line(), flush=True)
            if options.profile:
                draw({f"{nodes:,} nodes": stacks}, OUT / f"extender-profile-{nodes}.png")
            kept &= figures.cpu_ms <= CPU_MS_A_POD
    return kept


def main() -> int:
    """Run the bench; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1_000, help="requests per row; full nodes take a fiftieth")
    parser.add_argument("--twins-per-s", type=float, default=TWINS_PER_S, help="twin updates during the measurement")
    parser.add_argument("--peer", help="base URL of another extender to compare with")
    parser.add_argument("--replay", action="store_true", help="pods and their watch events instead of single requests")
    parser.add_argument("--profile", action="store_true", help="with --replay: draw where the CPU time goes, to out/")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 5_000], help="sizes of the replay's cluster")
    parser.add_argument("--rate", type=float, nargs="+", default=[0.0], help="pods a second of the replay; 0: the most")
    parser.add_argument("--pods", type=int, default=4_000, help="pods of each replay")
    parser.add_argument("--candidates", type=int, help="names in a request of the replay, not kube-scheduler's sample")
    parser.add_argument("--plot", action="store_true", help="draw latency over node count")
    options = parser.parse_args()
    if options.replay:
        return 0 if replay_pods(options) else 1
    with run_extender(NODES, options.twins_per_s) as extender:
        met = print_table(extender, options.rounds, options.peer)
    if options.plot:
        with run_extender(SIZES[-1], options.twins_per_s) as extender:
            print(plot(extender, options.rounds))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
