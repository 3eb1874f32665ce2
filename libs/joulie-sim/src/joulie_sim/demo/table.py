"""Display of the demo while it runs and at its end: tables, or lines if there is no terminal. No I/O."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_sim.demo.record import NodeSums, RecordedTransition, RunRecord, Sample
from joulie_sim.demo.sleeping.power import Power
from joulie_sim.demo.summary import ClassSummary, Summary
from joulie_sim.demo.without_joulie import DemoComparison
from joulie_sim.pod_figures import WaitFigures
from joulie_sim.tables import TextTable

_STYLES: Final = {
    SchedulableClass.PERFORMANCE: "bold red",
    SchedulableClass.ECO: "green",
    SchedulableClass.DRAINING: "yellow",
    SchedulableClass.UNKNOWN: "dim",
    Power.AWAKE: "bold red",
    Power.WAKING: "yellow",
    Power.ASLEEP: "blue",
}
_TRANSITIONS_SHOWN: Final = 6
_KILO: Final = 1000.0
_MINUTE_S: Final = 60.0
_WAITS: Final[tuple[tuple[str, Callable[[WaitFigures], float | None]], ...]] = (
    ("mean", lambda found: found.mean_s),
    ("p95", lambda found: found.p95_s),
)


def live_view(record: RunRecord, sample: Sample, *, headline: str, sleeps: bool) -> Group:
    """Return the live display: nodes by what their servers do if they sleep, else by profile."""
    nodes = _nodes_by_power(sample) if sleeps else _nodes(sample)
    return Group(Text(headline, style="bold"), nodes, _pods(record, sample), _transitions(record, sleeps=sleeps))


def plain_line(sample: Sample, *, headline: str, sleeps: bool) -> str:
    """Return the live display as one line."""
    if sleeps:
        nodes = ", ".join(
            f"{power.value} {found.nodes} nodes {found.watts / _KILO:.1f} kW"
            for power, found in sample.by_power.items()
        )
    else:
        nodes = ", ".join(
            f"{node_class.value} {found.nodes} nodes {found.watts / _KILO:.1f}/{found.cap_watts / _KILO:.1f} kW"
            for node_class, found in _present(sample)
        )
    pods = ", ".join(
        f"{workload.value} {found.pending} pending {found.running} running {found.finished} done"
        for workload, found in sample.pods.items()
    )
    return f"{headline} | {nodes} | {pods}"


def summary_view(summary: Summary) -> Group:
    """Return the tables at the end."""
    sleeps = summary.power_offs is not None
    parts: list[RenderableType] = [_summary_pods(summary), _summary_cluster(summary)]
    if summary.without_joulie is not None:
        parts += _summary_without(summary.without_joulie, sleeps=sleeps)
    if summary.speed != 1.0:
        parts.append(Text(_scaled(summary.speed)))
    return Group(*parts)


def _nodes(sample: Sample) -> Table:
    found = _present(sample)
    rows: list[tuple[str | Text, ...]] = [
        (Text(node_class.value, style=_STYLES[node_class]), *_node_cells(each)) for node_class, each in found
    ]
    header = ("profile", "nodes", "watts", "cap watts", "of cap", "pods")
    table = TextTable(header, rows, "nodes by profile").rich()
    table.add_section()
    table.add_row("all", *_node_cells(_total(each for _, each in found)))
    return table


def _nodes_by_power(sample: Sample) -> Table:
    rows: list[tuple[str | Text, ...]] = [
        (Text(power.value, style=_STYLES[power]), str(found.nodes), f"{found.watts:,.0f}", str(found.running))
        for power, found in sample.by_power.items()
    ]
    table = TextTable(("servers", "nodes", "watts at the wall", "pods"), rows, "nodes awake and asleep").rich()
    table.add_section()
    total = _total(sample.by_power.values())
    table.add_row("all", str(total.nodes), f"{total.watts:,.0f}", str(total.running))
    return table


def _node_cells(found: NodeSums) -> tuple[str, ...]:
    share = f"{100 * found.watts / found.cap_watts:.0f} %" if found.cap_watts else "-"
    return (str(found.nodes), f"{found.watts:,.0f}", f"{found.cap_watts:,.0f}", share, str(found.running))


def _total(parts: Iterable[NodeSums]) -> NodeSums:
    found = list(parts)
    return NodeSums(
        nodes=sum(part.nodes for part in found),
        watts=sum(part.watts for part in found),
        cap_watts=sum(part.cap_watts for part in found),
        running=sum(part.running for part in found),
    )


def _present(sample: Sample) -> list[tuple[SchedulableClass, NodeSums]]:
    """Return the classes that have nodes, and always performance and eco."""
    shown = (SchedulableClass.PERFORMANCE, SchedulableClass.ECO)
    return [(node_class, found) for node_class, found in sample.by_class.items() if found.nodes or node_class in shown]


def _pods(record: RunRecord, sample: Sample) -> Table:
    rows = []
    for workload, found in sample.pods.items():
        waits = WaitFigures.of(track.wait_s for track in record.tracks(workload))
        counts = (found.pending, found.running, found.finished)
        done = f"{100 * found.finished / sum(counts):.0f} % done" if sum(counts) else "-"
        rows.append((workload.value, *map(str, counts), _number(waits.mean_s, "s"), done))
    header = ("class", "pending", "running", "done", "mean wait", "of the workload")
    return TextTable(header, rows, "pods by class").rich()


def _transitions(record: RunRecord, *, sleeps: bool) -> Table:
    changes: Sequence[RecordedTransition] = record.power_changes if sleeps else record.transitions
    last = list(changes)[-_TRANSITIONS_SHOWN:]
    rows: list[tuple[str | Text, ...]] = [
        (
            f"{change.at_s:.0f} s",
            change.node,
            Text(change.before.value, style=_STYLES[change.before]),
            Text(change.after.value, style=_STYLES[change.after]),
        )
        for change in reversed(last)
    ]
    # Empty rows keep the height of the display constant.
    rows += [("", "", "", "")] * (_TRANSITIONS_SHOWN - len(last))
    title = "last nodes that fell asleep or woke" if sleeps else f"last transitions ({record.transition_count} so far)"
    return TextTable(("at", "node", "from", "to"), rows, title).rich()


def _summary_pods(summary: Summary) -> Table:
    figures: tuple[tuple[str, Callable[[ClassSummary], str]], ...] = (
        ("created", lambda found: str(found.created)),
        ("scheduled", lambda found: str(found.waits.bound)),
        ("completed", lambda found: str(found.finished)),
        ("mean wait for a node", lambda found: _number(found.waits.mean_s, "s")),
        ("95th percentile of the wait", lambda found: _number(found.waits.p95_s, "s")),
        ("mean slowdown", lambda found: _number(found.mean_slowdown, "x")),
        ("placed on performance nodes", lambda found: _placed(found, SchedulableClass.PERFORMANCE)),
        ("placed on eco nodes", lambda found: _placed(found, SchedulableClass.ECO)),
        ("placed on draining or unknown nodes", _placed_elsewhere),
    )
    rows = [(name, *map(read, summary.classes.values())) for name, read in figures]
    return TextTable(("", *(workload.value for workload in summary.classes)), rows, "pods").rich()


def _summary_cluster(summary: Summary) -> Table:
    rows = [
        ("nodes", str(summary.nodes)),
        ("duration of the workload", _duration(summary)),
        ("mean power", _number(summary.mean_watts, "W", digits=0)),
        ("peak power", _number(summary.peak_watts, "W", digits=0)),
        *(
            (f"energy of {node_class.value} nodes", f"{kwh:.3f} kWh")
            for node_class, kwh in summary.energy_kwh.items()
            if kwh > 0.0 and summary.power_offs is None
        ),
        *(
            (f"energy at the wall of servers {power.value}", f"{kwh:.3f} kWh")
            for power, kwh in summary.energy_by_power_kwh.items()
        ),
        *_summary_changes(summary),
        ("scheduler, best 5 s", f"{summary.peak_pods_per_s:.1f} pods/s"),
        ("services restarted", str(summary.restarts)),
    ]
    return TextTable(("", "value"), rows, "cluster").rich()


def _summary_changes(summary: Summary) -> tuple[tuple[str, str], ...]:
    if summary.power_offs is None:
        return (("transitions of nodes", str(summary.transitions)),)
    return (("most nodes asleep", str(summary.most_asleep)), ("power-offs", str(summary.power_offs)))


def _scaled(speed: float) -> str:
    return (
        f"Times are simulated, {speed:g} s in a second of the clock. What programs take is not scaled: a second until "
        f"kube-scheduler tries a pod again, or until a busy machine gets to it, counts as {speed:g} s of its wait."
    )


def _duration(summary: Summary) -> str:
    if summary.speed == 1.0:
        return f"{summary.duration_s:.0f} s"
    return f"{format_span(summary.duration_s)} in {summary.duration_s / summary.speed:.0f} s"


def format_span(simulated_s: float) -> str:
    """Return hours and minutes."""
    hours, minutes = divmod(int(simulated_s / _MINUTE_S), 60)
    return f"{hours} h {minutes:02d} min"


def _summary_without(found: DemoComparison, *, sleeps: bool) -> tuple[Table, Text]:
    arms = (found.measured, found.simulated, found.without, found.packing)
    rows = [
        ("energy at the wall" if sleeps else "energy of CPUs and GPUs", *(f"{arm.kwh:.3f} kWh" for arm in arms)),
        *(
            (f"mean slowdown, {workload.value} pods", *(_number(arm.slowdowns[workload], "x") for arm in arms))
            for workload in WorkloadClass
        ),
        *(
            (f"{name} wait, {workload.value} pods", *(_number(read(arm.waits[workload]), "s") for arm in arms))
            for workload in WorkloadClass
            for name, read in _WAITS
        ),
        ("power-offs", *(str(arm.power_offs) for arm in arms))
        if sleeps
        else ("transitions of nodes", *(str(arm.transitions) for arm in arms)),
    ]
    header = ("", "measured", "simulated", "default alone", "packing alone")
    return TextTable(header, rows, "the demo, and the same pods under kube-scheduler alone").rich(), Text(
        f"By the simulated runs with Joulie and with kube-scheduler's default alone, {found.conclusion}; against the "
        f"better of kube-scheduler's two strategies {found.saved_of_better_pct:+.1f} %. The error is that of the "
        "simulated run with Joulie over the measured one; chance is that of kube-scheduler's choice among equal nodes."
    )


def _placed(found: ClassSummary, node_class: SchedulableClass) -> str:
    share = found.placed_share(node_class)
    return "-" if share is None else f"{found.placed_on.get(node_class, 0)} ({100 * share:.0f} %)"


def _placed_elsewhere(found: ClassSummary) -> str:
    return str(
        sum(found.placed_on.get(node_class, 0) for node_class in (SchedulableClass.DRAINING, SchedulableClass.UNKNOWN))
    )


def _number(value: float | None, unit: str, *, digits: int = 2) -> str:
    return "-" if value is None else f"{value:,.{digits}f} {unit}"


def closing_line(summary: Summary) -> str:
    """Return the results of the run in one line."""
    performance = summary.classes[WorkloadClass.PERFORMANCE]
    finished = sum(found.finished for found in summary.classes.values())
    created = sum(found.created for found in summary.classes.values())
    placed = _placed(performance, SchedulableClass.PERFORMANCE)
    figures = [
        f"{finished} of {created} pods completed",
        f"performance pods on performance nodes: {placed}",
        f"{summary.total_kwh:.3f} kWh",
        f"{summary.transitions} transitions of nodes in {summary.duration_s:.0f} s",
    ]
    if summary.power_offs is not None:
        figures[1:2] = []
        figures[-1] = f"{summary.power_offs} power-offs, {summary.most_asleep} nodes asleep at most"
    if summary.without_joulie is not None:
        figures.append(f"against the same pods without Joulie, simulated: {summary.without_joulie.conclusion}")
    return "; ".join(figures)
