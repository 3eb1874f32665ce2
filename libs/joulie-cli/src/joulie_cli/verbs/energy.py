"""`kubectl joulie energy`: the energy of workloads, as the agents have added it up since they started."""

import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joulie_api.energy_factors import EnergyFactors
from joulie_api.errors import DecodeError
from joulie_api.resources import TELEMETRY_PROFILES
from joulie_api.wire import decode_kind
from joulie_cli.arguments import add_verb, cluster_options, format_option, namespace_option
from joulie_cli.cluster import connect
from joulie_cli.factors import (
    RELEASE_NAMESPACE,
    FactorsFound,
    described,
    factors_data,
    find_factors,
    kind_of,
)
from joulie_cli.layout import Cell, Line, TableColumn, age, line, paragraph, table
from joulie_cli.output import CliError, ExitCode, show
from joulie_cli.views import Raw
from joulie_core.attribution.sums import EnergySum
from joulie_core.kinds.energy_report import EnergyReport
from joulie_core.kinds.telemetry_profile import TelemetryProfile
from joulie_core.timestamps import epoch_seconds
from joulie_core.units import JOULES_PER_KWH

_COLUMNS: Final = (
    TableColumn("NAMESPACE"),
    TableColumn("WORKLOAD", elastic=True),
    TableColumn("DEVICE"),
    TableColumn("KIND"),
    TableColumn("kWh", right=True),
    TableColumn("FROM", right=True),
    TableColumn("TO", right=True),
)
_BY_WORKLOAD: Final = "workload"
_BY_NAMESPACE: Final = "namespace"
_decode: Final = decode_kind(TelemetryProfile)


@dataclass(frozen=True, slots=True)
class EnergyRow:
    """Energy of one workload, or of one namespace, on all nodes."""

    namespace: str
    #: Empty where it is the namespace's.
    workload: str
    device: str
    kind: str
    energy: EnergySum

    def data(self, factors: EnergyFactors) -> dict[str, Any]:
        """Return the row for JSON and YAML, with money and emissions as far as their factors are given."""
        named = {"namespace": self.namespace, **({"workload": self.workload} if self.workload else {})}
        sums = {
            "joules": self.energy.joules,
            "lowerJoules": self.energy.lower_joules,
            "upperJoules": self.energy.upper_joules,
        }
        counted = {name: _times(self.energy, each_kwh) for name, each_kwh in _multipliers(factors).items()}
        return {**named, "device": self.device, "kind": self.kind, **sums, **counted}


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "energy",
        run,
        summary="which workload the energy of the nodes was for",
        description="Energy by workload since the agents of the nodes started, from the energy counters of CPUs and "
        "GPUs. measured: one pod held the GPU. allocated: a rule has split the energy, and FROM and TO are its bounds. "
        "Idle energy, and energy of which it is not known which pod it was for, are told apart. Each node reports its "
        "40 largest sums; what the others had is other. For a certain time ask Prometheus: docs/energy-by-pod.md. "
        "Money and CO2e are shown where the ConfigMap joulie-energy-factors has what a kWh costs and emits. "
        "Taken from the reports of the agents, which add it up if the chart has agent.energyByPod.enabled.",
        example="kubectl joulie energy -n ml\nkubectl joulie energy --by namespace",
        parents=[cluster_options(), namespace_option(all_of_them=True), format_option(wide=False)],
    )
    parser.add_argument(
        "--by", choices=(_BY_WORKLOAD, _BY_NAMESPACE), default=_BY_WORKLOAD, help="sums; workload by default"
    )
    parser.add_argument(
        "--release-namespace", default=RELEASE_NAMESPACE, metavar="NAME",
        help=f"namespace of the ConfigMap joulie-energy-factors; {RELEASE_NAMESPACE} by default",
    )  # fmt: skip


async def run(options: Namespace) -> ExitCode:
    """Print the energy."""
    async with connect(options) as cluster:
        found = await cluster.read(TELEMETRY_PROFILES, _report_of)
        counted = await find_factors(cluster, options.release_namespace)
    unreadable = [each for each in found if isinstance(each, DecodeError)]
    reports = {
        name: report
        for name, report in (each for each in found if not isinstance(each, DecodeError))
        if report is not None
    }
    if not reports and not unreadable:
        raise CliError("no agent adds up energy by pod", "set agent.energyByPod.enabled of the chart")
    rows = _rows(reports.values(), options.by, options.namespace)
    data = {
        "workloads": [each.data(counted.factors) for each in rows],
        "factors": factors_data(counted.factors),
        "nodes": {name: report.dump() for name, report in sorted(reports.items())},
    }
    show(options, data, lambda width: _lines(rows, reports, unreadable, counted, width))
    if counted.error is not None:
        raise counted.error
    return ExitCode.OK


def _multipliers(factors: EnergyFactors) -> dict[str, float]:
    """Return what a kWh is multiplied by, by the name of the product."""
    found = {}
    if factors.price is not None:
        found["money"] = factors.price.per_kwh
    if factors.emissions is not None:
        found["co2eKilograms"] = factors.emissions.kilograms_per_kwh
    return found


def _times(energy: EnergySum, each_kwh: float) -> dict[str, float]:
    named = (("lower", energy.lower_joules), ("point", energy.joules), ("upper", energy.upper_joules))
    return {name: joules / JOULES_PER_KWH * each_kwh for name, joules in named}


def _report_of(raw: Raw) -> tuple[str, EnergyReport | None] | DecodeError:
    """Return the node and its energy, or why the report cannot be read: the others are shown all the same."""
    try:
        profile = _decode(bytes(raw))
    except DecodeError as error:
        return error
    return profile.name, profile.model.status.energy


def _rows(reports: Any, by: str, namespace: str | None) -> list[EnergyRow]:
    sums: dict[tuple[str, str, str, str], EnergySum] = {}
    for report in reports:
        for each in report.workloads:
            if namespace is not None and each.namespace != namespace:
                continue
            key = (each.namespace, "" if by == _BY_NAMESPACE else each.workload, each.device.value, each.kind.value)
            energy = EnergySum(each.joules, each.lower_joules, each.upper_joules)
            sums[key] = sums.get(key, EnergySum()).and_sum(energy)
    found = [EnergyRow(*key, energy) for key, energy in sums.items()]
    return sorted(found, key=lambda row: (-row.energy.joules, row.namespace, row.workload, row.device, row.kind))


def _lines(
    rows: Sequence[EnergyRow],
    reports: Mapping[str, EnergyReport],
    unreadable: Sequence[DecodeError],
    counted: FactorsFound,
    width: int | None,
) -> list[Line]:
    factors = counted.factors
    columns = (*_COLUMNS, *(TableColumn(title, right=True) for title in _titles(factors)))
    cells = (_cells(row, factors) for row in rows)
    lines = table(columns, cells, width) if rows else [line("No pod has had energy yet.")]
    lines.append(line())
    notes = [counted.note] if counted.note else []
    for text in (*_ends(reports), *described(factors), *notes, *map(str, unreadable)):
        lines += paragraph(text, width=width)
    return lines


def _titles(factors: EnergyFactors) -> Iterator[str]:
    if factors.price is not None:
        yield factors.price.currency or "MONEY"
    if factors.emissions is not None:
        yield f"kgCO2e {kind_of(factors.emissions)}"


def _cells(row: EnergyRow, factors: EnergyFactors) -> tuple[Cell, ...]:
    energy = row.energy
    kwh = (f"{joules / JOULES_PER_KWH:.3f}" for joules in (energy.joules, energy.lower_joules, energy.upper_joules))
    names = (row.namespace or "-", row.workload or "-", row.device, row.kind)
    products = (f"{energy.joules / JOULES_PER_KWH * each_kwh:.2f}" for each_kwh in _multipliers(factors).values())
    return tuple(map(Cell, (*names, *kwh, *products)))


def _ends(reports: Mapping[str, EnergyReport]) -> Iterator[str]:
    """Yield what is told below the table: the parts of all nodes, and since when they are added up."""
    devices = [each for report in reports.values() for each in report.devices]
    parts = (
        ("pods", sum(each.pods_joules for each in devices)),
        ("idle", sum(each.idle_joules for each in devices)),
        ("unattributed", sum(each.unattributed_joules for each in devices)),
    )
    yield "All nodes: " + ", ".join(f"{name} {joules / JOULES_PER_KWH:.3f} kWh" for name, joules in parts) + "."
    unknown_s = sum(each.unknown_seconds for each in devices)
    if unknown_s > 0.0:
        yield f"No counter told the energy of {age(unknown_s)}, added up over devices."
    since = [at for report in reports.values() if (at := epoch_seconds(report.since)) is not None]
    if since:
        now = time.time()
        longest, shortest = age(now - min(since)), age(now - max(since))
        told = longest if longest == shortest else f"{shortest} to {longest}"
        yield f"{len(reports)} {'node' if len(reports) == 1 else 'nodes'}, added up for {told}."
