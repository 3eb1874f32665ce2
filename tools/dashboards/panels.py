"""Panels and dashboards as values, and the Grafana JSON that they become."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import BigValueGraphMode, StackingMode
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync, DataSourceRef

_COLUMNS: Final = 24
_STAT_WIDTH: Final = 4
_STAT_HEIGHT: Final = 4
_HEIGHT: Final = 8
#: Set by a variable, so that a dashboard works with any Prometheus of the Grafana that imports it.
_SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")


class Form(Enum):
    """Form in which a panel shows its queries."""

    LINES = auto()
    STACKED = auto()
    NUMBER = auto()
    TABLE = auto()


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression and the name of its series; `{{label}}` is replaced in it."""

    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel.

    Attributes:
        title: what it shows.
        unit: unit of Grafana, such as `watt`, `s`, `percent`, `short`.
        queries: what is drawn.
        form: how it is drawn.
        width: columns of 24; numbers have their own.
        doc: the description that Grafana shows on request.
    """

    title: str
    unit: str
    queries: tuple[Query, ...]
    form: Form = Form.LINES
    width: int = 12
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A row with a title."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard; its uid and file name are `joulie-<name>`."""

    name: str
    title: str
    rows: tuple[Row, ...]

    def queries(self) -> list[Query]:
        """Return every query of the dashboard."""
        return [query for row in self.rows for panel in row.panels for query in panel.queries]


def line(title: str, unit: str, *queries: tuple[str, str], **options: Any) -> Panel:
    """Return a panel; a query is an expression and a legend."""
    return Panel(title, unit, tuple(Query(*query) for query in queries), **options)


def number(title: str, unit: str, expression: str, doc: str = "") -> Panel:
    """Return a panel with one number."""
    return Panel(title, unit, (Query(expression),), Form.NUMBER, _STAT_WIDTH, doc)


def grafana_json(board: Board) -> str:
    """Return the dashboard as Grafana imports it."""
    builder = (
        dashboard.Dashboard(board.title)
        .uid(f"joulie-{board.name}")
        .tags(["joulie"])
        .refresh("30s")
        .time("now-3h", "now")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .link(dashboard.DashboardLink("Joulie").tags(["joulie"]).as_dropdown(as_dropdown=True))
    )
    for row in board.rows:
        builder = builder.with_row(dashboard.Row(row.title))
        for panel in row.panels:
            builder = builder.with_panel(_panel(panel))
    return JSONEncoder(sort_keys=True, indent=1).encode(builder.build()) + "\n"


def _panel(panel: Panel) -> Any:
    made: Any
    match panel.form:
        case Form.NUMBER:
            made = stat.Panel().graph_mode(BigValueGraphMode.AREA).height(_STAT_HEIGHT)
        case Form.TABLE:
            made = (
                table.Panel()
                .height(_HEIGHT)
                .sort_by([common.TableSortByFieldState().display_name("Value").desc(desc=True)])
            )
        case Form.LINES | Form.STACKED:
            made = timeseries.Panel().height(_HEIGHT).fill_opacity(8).line_width(1).min(0)
    if panel.form is Form.STACKED:
        made = made.stacking(common.StackingConfig().mode(StackingMode.NORMAL)).fill_opacity(40)
    made = made.title(panel.title).unit(panel.unit).datasource(_SOURCE).span(panel.width)
    if panel.doc:
        made = made.description(panel.doc)
    for index, query in enumerate(panel.queries):
        made = made.with_target(_target(query, "ABCDEFGH"[index], panel.form))
    return made


def _target(query: Query, ref: str, form: Form) -> prometheus.Dataquery:
    made = prometheus.Dataquery().ref_id(ref).expr(query.expression).legend_format(query.legend or "__auto")
    return made.instant().format("table") if form is Form.TABLE else made.range()


def all_queries(boards: Sequence[Board]) -> list[tuple[str, str]]:
    """Return dashboard and expression of every query."""
    return [(board.name, query.expression) for board in boards for query in board.queries()]
