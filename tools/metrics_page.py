"""Writes docs/metrics.md, the reference of every metric of the services, from their registries."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector
from tools.generated import ROOT, cell, finish

from joulie_agent.class_limits.enforcement import EnforcementCounts
from joulie_agent.class_limits.metrics import enforcement_families, start_families
from joulie_agent.energy.metrics import energy_families
from joulie_agent.metrics import families
from joulie_agent.node_view import NodeView
from joulie_api.app import set_aside
from joulie_api.failures import Failures
from joulie_api.metrics import NodeSeriesCollector, Registry, new_registry
from joulie_containers.resources.core_limit_enforcement import CoreLimitCounts
from joulie_containers.resources.core_limits import CoreLimitState
from joulie_containers.resources.metrics import ManagerCounts, PipelineDurations, register_series
from joulie_containers.start_hook.metrics import start_hook_families
from joulie_extender.metrics import ExtenderMetrics
from joulie_operator.class_limits.metrics import lifting_families
from joulie_operator.metrics import OperatorMetrics, register_node_series
from joulie_operator.power_domains.event_metrics import event_families
from joulie_operator.power_domains.metrics import families as power_domain_families
from joulie_operator.savings.metrics import SavingsCounters
from joulie_operator.sleep.metrics import SleepMetrics
from joulie_operator.sleep.metrics import families as sleep_families
from joulie_outofband.metrics import OutOfBandMetrics
from joulie_outofband.metrics import families as outofband_families
from joulie_ven.metrics import VenMetrics

_HEAD: Final = """\
# Metrics

Services serve `/metrics` in the text format of Prometheus: operator `:8081`, agent `:8080`, resource manager `:8082`,
node agent `:8085`, start hook `:8087`, extender `:9877`, out-of-band service `:8084`. Names and labels are stable.
Series with the label `node` are made when they are scraped and exist as long as the process serves the node; the
operator's are exported by the leader only. An unknown value has no sample.

This page is generated: `just docs`.
"""


class _EmptyTable:
    """A table of the extender without nodes."""

    terms = SimpleNamespace(perf_pressure=0.0)

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class _NoContainers:
    """A resource manager without containers."""

    counts = ManagerCounts()
    usage_milli: Mapping[str, int] = MappingProxyType({})
    configuration_problem = None
    files = SimpleNamespace(failed=0)
    classes = SimpleNamespace(problem=None, shortfalls={})
    core_limits = SimpleNamespace(state=CoreLimitState())
    core_enforcement = SimpleNamespace(limited={}, without_consent=(), counts=CoreLimitCounts())
    engine = SimpleNamespace(ledger=SimpleNamespace(pending=()), placements={}, containers={}, zones=(), cpu_classes={})
    updater = SimpleNamespace(sent=0, failed=0)
    runtime_state = SimpleNamespace(registered=False, registrations=0)


def page() -> str:
    """Return the page."""
    common = new_registry("service", "version")
    Failures(common)
    common.register(NodeSeriesCollector(lambda: [set_aside(())]))
    operator, agent, manager, start_hook, extender, outofband, ven = (Registry() for _ in range(7))
    no_nodes: Any = SimpleNamespace(managed=tuple, nodes={})
    register_node_series(operator, OperatorMetrics(operator), no_nodes, no_nodes, no_nodes, is_leading=lambda: True)
    SleepMetrics(operator)
    operator.register(NodeSeriesCollector(lambda: sleep_families({}, {})))
    operator.register(NodeSeriesCollector(lambda: lifting_families(waiting=0, lifted_nodes=0)))
    operator.register(NodeSeriesCollector(lambda: SavingsCounters().families({})))
    operator.register(NodeSeriesCollector(lambda: power_domain_families({})))
    operator.register(NodeSeriesCollector(lambda: event_families({}, 0)))
    worker: Any = SimpleNamespace(view=NodeView())
    agent.register(NodeSeriesCollector(lambda: families({"node": worker})))
    no_energy: Any = SimpleNamespace(totals={}, missing={})
    agent.register(NodeSeriesCollector(lambda: energy_families("node", no_energy)))
    nothing_set: Any = SimpleNamespace(counts=EnforcementCounts(), limited=0, without_consent=0)
    agent.register(NodeSeriesCollector(lambda: enforcement_families("node", nothing_set)))
    no_starts: Any = SimpleNamespace(waits_s=None, limited_starts=0)
    agent.register(NodeSeriesCollector(lambda: start_families("node", no_starts)))
    no_questions: Any = SimpleNamespace(outcomes=Counter(), waited_s=0.0, longest_wait_s=0.0)
    start_hook.register(NodeSeriesCollector(lambda: start_hook_families(no_questions, registered=False)))
    no_containers: Any = _NoContainers()
    PipelineDurations(manager, no_containers.counts)
    register_series(manager, no_containers)
    table: Any = _EmptyTable()
    ExtenderMetrics(extender, table)
    OutOfBandMetrics(outofband)
    VenMetrics(ven)
    outofband.register(NodeSeriesCollector(lambda: outofband_families(dict)))
    sections = {
        "Every service": common,
        "Operator": operator,
        "Agent": agent,
        "Resource manager": manager,
        "Start hook": start_hook,
        "Extender": extender,
        "Out-of-band service": outofband,
        "VEN": ven,
    }
    return "\n".join([_HEAD, *(line for title, each in sections.items() for line in _section(title, each))])


def _section(title: str, registry: Registry) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| metric | type | labels | meaning |"
    yield "|---|---|---|---|"
    rows = (row for collector in _collectors(registry) for row in _rows(collector))
    for name, kind, labels, doc in sorted(rows):
        yield f"| `{name}` | {kind} | {', '.join(f'`{each}`' for each in labels)} | {cell(doc)} |"
    yield ""


def _collectors(registry: Registry) -> Iterable[Collector]:
    return registry._collector_to_names  # noqa: SLF001 - there is no public list


def _rows(collector: Collector) -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    declared = collector if isinstance(collector, MetricWrapperBase) else None
    for metric in collector.collect():
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        labels = tuple(getattr(declared or metric, "_labelnames", ()))
        yield name, metric.type, labels, metric.documentation


if __name__ == "__main__":
    sys.exit(finish(ROOT / "docs" / "metrics.md", page(), "just docs"))
