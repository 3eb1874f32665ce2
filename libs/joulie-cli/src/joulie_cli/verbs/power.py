"""`kubectl joulie power`: the tree of power domains, what its nodes draw and may draw, and their shares."""

import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Any, Final

from joulie_api.resources import NODE_POWER_BUDGETS, POWER_DOMAINS
from joulie_api.wire.metadata import WireCondition
from joulie_cli.arguments import add_verb, cluster_options, format_option
from joulie_cli.cluster import connect
from joulie_cli.layout import (
    UNKNOWN,
    Cell,
    Line,
    TableColumn,
    age,
    counted,
    line,
    pairs,
    paragraph,
    table,
    total_watts,
    watts,
)
from joulie_cli.output import CliError, ExitCode, show
from joulie_cli.verbs.power_oversubscribed import (
    MAY_BE_ABOVE,
    held_while_oversubscribed,
    is_above,
    may_draw,
    raise_state,
)
from joulie_cli.views.power_domains import (
    BudgetView,
    DomainStatusView,
    DomainView,
    DrawnView,
    RestView,
    decode_power_budget,
    decode_power_domain,
    in_tree_order,
    names_below,
)
from joulie_core.timestamps import epoch_seconds

_BAR_WIDTH: Final = 10
_MEASURED, _MODELLED, _LEFT, _MISSING = "█", "▒", "·", "?"
_COLUMNS: Final = (
    TableColumn("DOMAIN", elastic=True),
    TableColumn("LIMIT", right=True),
    TableColumn("OF LIMIT"),
    TableColumn("DRAWN", right=True),
    TableColumn("MAY DRAW", right=True),
    TableColumn("SHARE", right=True),
    TableColumn("NODES", right=True),
    TableColumn("MODE"),
    TableColumn("STATE", elastic=True),
)
_NODE_COLUMNS: Final = (
    TableColumn("NODE", elastic=True),
    TableColumn("WANTS", right=True),
    TableColumn("SHARE", right=True),
    TableColumn("WHY", elastic=True),
)
_BUDGET_COLUMNS: Final = (
    TableColumn("LIMITED NODE", elastic=True),
    TableColumn("ASKED", right=True),
    TableColumn("IN FORCE", right=True),
    TableColumn("ANSWER"),
)
#: Levels that are indented.
_MOST_INDENTED: Final = 8
#: Nodes that are printed of each table; `-o json` has all that the status names, and all limits.
_MOST_NODES: Final = 20
#: Age from which a status is not current: two of the operator's intervals.
_OLD_S: Final = 600.0
_LOWERS_NOTHING: Final = "Mode Observe: nothing is lowered, and no breaker is protected."
_LEGEND: Final = (
    f"OF LIMIT: {_MEASURED} measured, {_MODELLED} modelled, {_LEFT} left; {_MISSING} unknown of some nodes."
)
_NOT_OBSERVED: Final = "not observed"
_ENFORCE: Final = "Enforce"
_FAULT, _WARNING = "red", "yellow"


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "power",
        run,
        summary="power domains: what their nodes draw, and their shares",
        description="The tree of PowerDomains. DRAWN is what CPU packages and GPUs draw now, with a ? where nothing is "
        "known of some nodes; MAY DRAW is their highest power, or where MODE is Enforce the sum of the limits that may "
        "be in force, - where that of one node is not known, with what is permitted where they are above the limit of "
        "an oversubscribed domain; SHARE is what the limits leave them, to which nothing is lowered in mode Observe; "
        "NODES has the number of those whose highest power is not known behind a +. STATE is "
        "the fault of a domain that cannot be used, else whether what nodes may draw fits. With a NAME: conditions, "
        "the nodes whose share is below what they want, and in mode Enforce the limit of each node. "
        "docs/power-budgets.md has the rest.",
        example="kubectl joulie power\nkubectl joulie power rack-1",
        parents=[cluster_options(), format_option(wide=False)],
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="only this PowerDomain, in detail")


async def run(options: Namespace) -> ExitCode:
    """Print the domains."""
    async with connect(options) as cluster:
        found = await cluster.read(POWER_DOMAINS, decode_power_domain)
        chosen = next((each for each in found if each.name == options.name), None)
        below, budgets = names_below(options.name or "", found), list[BudgetView]()
        if chosen is not None and chosen.status.mode == _ENFORCE:
            budgets = await cluster.read(NODE_POWER_BUDGETS, decode_power_budget)
    now_s = time.time()
    if options.name is not None:
        if chosen is None:
            raise CliError(f"there is no PowerDomain {options.name!r}", "kubectl joulie power lists them")
        limits = sorted((each for each in budgets if each.domain in below), key=lambda each: each.node)
        data = chosen.data() | ({"limits": [each.data() for each in limits]} if chosen.status.mode == _ENFORCE else {})
        show(options, data, lambda width: _detail(chosen, limits, now_s, width))
        return ExitCode.OK
    ordered = in_tree_order(found)
    show(options, {"domains": [each.data() for _, each in ordered]}, lambda width: _tree(ordered, now_s, width))
    return ExitCode.OK


def _tree(ordered: Sequence[tuple[int, DomainView]], now_s: float, width: int | None) -> list[Line]:
    if not ordered:
        return [line("There is no PowerDomain: docs/power-budgets.md has an example.")]
    rows = [_cells(depth, each, now_s) for depth, each in ordered]
    observes = any(each.status.mode != _ENFORCE for _, each in ordered)
    text = f"{_LEGEND} {_LOWERS_NOTHING}" if observes else _LEGEND
    if any(is_above(each) for _, each in ordered):
        text += f" {MAY_BE_ABOVE}"
    return [*table(_COLUMNS, rows, width), line(), *paragraph(text, width=width)]


def _cells(depth: int, domain: DomainView, now_s: float) -> list[Cell]:
    status = domain.status
    return [
        Cell(f"{'  ' * min(depth, _MOST_INDENTED)}{domain.name}"),
        Cell(watts(domain.limit_watts)),
        _bar(domain),
        Cell(_drawn(status.drawn)),
        Cell(may_draw(domain)),
        Cell(watts(status.allocated_watts)),
        Cell(_nodes(domain)),
        Cell(status.mode or UNKNOWN),
        _state(domain, now_s),
    ]


def _bar(domain: DomainView) -> Cell:
    """Return the share of the limit that is drawn; of one that is exceeded the whole bar, in red."""
    drawn, limit = domain.status.drawn, domain.limit_watts
    known = None if drawn is None else drawn.known_watts
    if drawn is None or known is None or not limit:
        return Cell(UNKNOWN)
    measured = min(_BAR_WIDTH, round(_BAR_WIDTH * (drawn.measured_watts or 0.0) / limit))
    filled = min(_BAR_WIDTH, round(_BAR_WIDTH * known / limit))
    bar = _MEASURED * measured + _MODELLED * (filled - measured) + _LEFT * (_BAR_WIDTH - filled)
    return Cell(f"{bar}{_MISSING if drawn.unknown_nodes else ''}", _FAULT if known > limit else "")


def _drawn(drawn: DrawnView | None) -> str:
    known = None if drawn is None else drawn.known_watts
    if drawn is None or known is None:
        return UNKNOWN
    return f"{watts(known)}{_MISSING if drawn.unknown_nodes else ''}"


def _rest(rest: RestView) -> str:
    """Return what servers may draw beyond their devices; of what is modelled with the lower end of its band."""
    parts = [f"of {counted(rest.measured_nodes, 'node')} by their BMCs"]
    if rest.modelled_nodes:
        band = f"{total_watts(rest.modelled_least_watts)} to {total_watts(rest.modelled_watts)}"
        parts.append(f"of {counted(rest.modelled_nodes, 'node')} by models, {band}")
    if rest.unknown_nodes:
        parts.append(f"unknown of {counted(rest.unknown_nodes, 'node')}")
    return f"{total_watts(rest.watts)} beyond CPU packages and GPUs: {', '.join(parts)}"


def _nodes(domain: DomainView) -> str:
    nodes, unknown = domain.status.nodes, domain.status.unknown_nodes or 0
    if nodes is None:
        return UNKNOWN
    return f"{nodes - unknown}+{unknown}" if unknown else str(nodes)


def _state(domain: DomainView, now_s: float) -> Cell:
    status = domain.status
    updated_s = epoch_seconds(status.last_updated)
    if domain.limit_watts is None:
        return Cell("Unreadable", _FAULT)
    if updated_s is None:
        return Cell(_NOT_OBSERVED, _WARNING)
    if now_s - updated_s > _OLD_S:
        return Cell(f"{age(now_s - updated_s)} old", _WARNING)
    accepted, held = status.find("Accepted"), status.find("Held")
    if accepted is None or accepted.status != "True":
        return Cell(accepted.reason if accepted is not None else _NOT_OBSERVED, _FAULT)
    return Cell(UNKNOWN) if held is None else _held(held, status)


def _held(held: WireCondition, status: DomainStatusView) -> Cell:
    away = {"silent": status.silent_nodes, "refused": status.refused_nodes}
    text = ", ".join(f"{count} {state}" for state, count in away.items() if count)
    if held.status == "True" and text:
        return Cell(text, _WARNING)
    if status.oversubscription is not None and held.status == "True":
        return held_while_oversubscribed(held.reason, status.oversubscription)
    return Cell(held.reason, "" if held.status == "True" else _WARNING)


def _detail(domain: DomainView, limits: Sequence[BudgetView], now_s: float, width: int | None) -> list[Line]:
    lines = pairs(_fields(domain, now_s), width)
    lowered = domain.status.lowered[:_MOST_NODES]
    if lowered:
        rows = [
            [Cell(each.node), Cell(watts(each.wanted_watts)), Cell(watts(each.allocated_watts)), Cell(each.reason)]
            for each in lowered
        ]
        lines += [line(), *table(_NODE_COLUMNS, rows, width)]
        more = (domain.status.lowered_nodes or 0) - len(lowered)
        if more > 0:
            lines.append(line(f"and {counted(more, 'node')} more"))
    if domain.status.mode != _ENFORCE:
        return [*lines, line(), line(_LOWERS_NOTHING)]
    if limits:
        shown = sorted(limits, key=lambda each: (each.state == "confirmed", each.node))[:_MOST_NODES]
        lines += [line(), *table(_BUDGET_COLUMNS, [_limit_cells(each) for each in shown], width)]
        if len(limits) > len(shown):
            lines.append(line(f"and {counted(len(limits) - len(shown), 'limited node')} more"))
    return lines


def _limit_cells(limit: BudgetView) -> list[Cell]:
    style = "" if limit.state == "confirmed" else _WARNING
    return [
        Cell(limit.node),
        Cell(watts(limit.asked_watts)),
        Cell(watts(limit.in_force_watts)),
        Cell(limit.state, style),
    ]


def _fields(domain: DomainView, now_s: float) -> Iterator[tuple[str, str | Cell]]:
    status, drawn = domain.status, domain.status.drawn
    yield "Domain", f"{domain.name}, below {domain.parent}" if domain.parent else domain.name
    yield "Limit", f"{total_watts(domain.limit_watts)}, {total_watts(domain.reserve_watts)} of it reserved"
    updated_s = epoch_seconds(status.last_updated)
    yield "Observed", f"{age(now_s - updated_s)} ago" if updated_s is not None else Cell("never", _WARNING)
    if status.nodes is not None:
        unknown = status.unknown_nodes or 0
        yield "Nodes", f"{status.nodes}, the highest power of {unknown} is not known"
    if drawn is not None:
        yield (
            "Drawn",
            (
                f"{total_watts(drawn.measured_watts)} measured of {counted(drawn.measured_nodes, 'node')}, "
                f"{total_watts(drawn.modelled_watts)} modelled of {counted(drawn.modelled_nodes, 'node')}, "
                f"unknown of {counted(drawn.unknown_nodes, 'node')}"
            ),
        )
    if status.rest is not None:
        yield "Rest", _rest(status.rest)
    yield "May draw", f"{total_watts(status.in_force_watts)}, headroom {total_watts(status.headroom_watts)}"
    if status.largest_in_force_watts is not None:
        yield "Largest", f"{total_watts(status.largest_in_force_watts)} since it was first within this limit"
    if status.oversubscription is not None:
        yield "Oversubscribed", raise_state(status.oversubscription)
    if status.unconfirmed_nodes is not None:
        away = (status.unconfirmed_nodes, status.refused_nodes or 0, status.silent_nodes or 0)
        yield "Answers", "{} unconfirmed, {} refused, {} silent".format(*away)
    yield "Share", f"{total_watts(status.allocated_watts)}, floors {total_watts(status.guaranteed_watts)}"
    if status.shortfall_watts:
        yield "Shortfall", Cell(f"{total_watts(status.shortfall_watts)} that no lowering could help", _FAULT)
    if status.limited_nodes is not None:
        yield "Lowered", f"{status.lowered_nodes or 0} below what they want, of {status.limited_nodes} limited"
    for each in status.conditions or ():
        text = f"{each.status}, {each.reason}" + (f": {each.message}" if each.message else "")
        yield each.type, text
