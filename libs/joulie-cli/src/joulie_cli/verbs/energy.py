"""`kubectl joulie energy`: the energy of workloads since the agents started, or of a time by Prometheus."""

import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from joulie_api.errors import DecodeError
from joulie_api.resources import TELEMETRY_PROFILES
from joulie_api.wire import decode_kind
from joulie_cli.arguments import add_verb, cluster_options, format_option, namespace_option
from joulie_cli.cluster import ClusterReader, connect
from joulie_cli.energy.rows import EnergyRow, EnergyView, energy_table, largest_first, parts_sentence, unknown_sentences
from joulie_cli.factors import RELEASE_NAMESPACE, FactorsFound, described, factors_data, find_factors
from joulie_cli.layout import Line, age, counted, line, paragraph
from joulie_cli.output import CliError, ExitCode, show
from joulie_cli.verbs.energy_since import BY_NAMESPACE, add_since_options, check_since_options, energy_of_time
from joulie_cli.views import Raw
from joulie_core.attribution.sums import EnergySum
from joulie_core.attribution.totals import EnergyPart
from joulie_core.kinds.energy_report import EnergyReport
from joulie_core.kinds.telemetry_profile import TelemetryProfile
from joulie_core.timestamps import epoch_seconds

_decode: Final = decode_kind(TelemetryProfile)


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "energy",
        run,
        summary="which workload the energy of the nodes was for",
        description="Energy by workload since the agents of the nodes started, from the energy counters of CPUs and "
        "GPUs; with --since that of a time, by the agents' series in Prometheus. measured: one pod held the GPU. "
        "allocated: a rule has split the energy, and FROM and TO are its bounds, - where it states none. "
        "Idle energy, and energy of which it is not known which pod it was for, are told apart. Without --since each "
        "node reports its 40 largest sums; what the others had is other. "
        "Money and CO2e are shown where the ConfigMap joulie-energy-factors has what a kWh costs and emits. "
        "Agents add energy up if the chart has agent.energyByPod.enabled. docs/energy-by-pod.md has the rest.",
        example="kubectl joulie energy -n ml\n"
        "kubectl joulie energy --by namespace --since 30d --prometheus monitoring/prometheus-operated:9090",
        parents=[cluster_options(), namespace_option(all_of_them=True), format_option(wide=False)],
    )
    add_since_options(parser)
    parser.add_argument(
        "--release-namespace", default=RELEASE_NAMESPACE, metavar="NAME",
        help=f"namespace of the ConfigMap joulie-energy-factors; {RELEASE_NAMESPACE} by default",
    )  # fmt: skip


async def run(options: Namespace) -> ExitCode:
    """Print the energy."""
    check_since_options(options)
    async with connect(options) as cluster:
        view = await (_since_start if options.since is None else energy_of_time)(cluster, options)
        found = await find_factors(cluster, options.release_namespace)
    data = {
        f"{view.owner}s": [each.data(view.owner, found.factors) for each in view.rows],
        "factors": factors_data(found.factors),
        **view.data,
    }
    show(options, data, lambda width: _lines(view, found, width))
    for error in (*view.errors, found.error):
        if error is not None:
            raise error
    return ExitCode.OK


async def _since_start(cluster: ClusterReader, options: Namespace) -> EnergyView:
    """Return the sums that the agents report."""
    found = await cluster.read(TELEMETRY_PROFILES, _report_of)
    unreadable = [each for each in found if isinstance(each, DecodeError)]
    reports = {
        name: report
        for name, report in (each for each in found if not isinstance(each, DecodeError))
        if report is not None
    }
    if not reports and not unreadable:
        raise CliError("no agent adds up energy by pod", "set agent.energyByPod.enabled of the chart")
    rows = _rows(reports.values(), options.by, options.namespace)
    sentences = [*_ends(reports), *map(str, unreadable)]
    data = {"nodes": {name: report.dump() for name, report in sorted(reports.items())}}
    return EnergyView(rows, sentences, "No pod has had energy yet.", data)


def _report_of(raw: Raw) -> tuple[str, EnergyReport | None] | DecodeError:
    """Return the node and its energy, or why the report cannot be read: the others are shown all the same."""
    try:
        profile = _decode(bytes(raw))
    except DecodeError as error:
        return error
    return profile.name, profile.model.status.energy


def _rows(reports: Iterable[EnergyReport], by: str | None, namespace: str | None) -> Sequence[EnergyRow]:
    sums: dict[tuple[str, str, str, str], EnergySum] = {}
    for report in reports:
        for each in report.workloads:
            if namespace is not None and each.namespace != namespace:
                continue
            key = (each.namespace, "" if by == BY_NAMESPACE else each.workload, each.device.value, each.kind.value)
            energy = EnergySum(each.joules, each.lower_joules, each.upper_joules)
            sums[key] = sums.get(key, EnergySum()).and_sum(energy)
    return largest_first(
        EnergyRow(*key, energy.joules, energy.lower_joules, energy.upper_joules) for key, energy in sums.items()
    )


def _lines(view: EnergyView, found: FactorsFound, width: int | None) -> list[Line]:
    lines = energy_table(view.rows, view.owner, found.factors, width) if view.rows else [line(view.nothing)]
    lines.append(line())
    notes = [found.note] if found.note else []
    for text in (*view.sentences, *described(found.factors), *notes):
        lines += paragraph(text, width=width)
    return lines


def _ends(reports: Mapping[str, EnergyReport]) -> Iterator[str]:
    """Yield what is told below the table: the parts of all nodes, and since when they are added up."""
    devices = [each for report in reports.values() for each in report.devices]
    yield parts_sentence(
        {
            EnergyPart.PODS: sum(each.pods_joules for each in devices),
            EnergyPart.IDLE: sum(each.idle_joules for each in devices),
            EnergyPart.UNATTRIBUTED: sum(each.unattributed_joules for each in devices),
        }
    )
    yield from unknown_sentences(sum(each.unknown_seconds for each in devices))
    since = [at for report in reports.values() if (at := epoch_seconds(report.since)) is not None]
    if since:
        now = time.time()
        longest, shortest = age(now - min(since)), age(now - max(since))
        told = longest if longest == shortest else f"{shortest} to {longest}"
        yield f"{counted(len(reports), 'node')}, added up for {told}."
