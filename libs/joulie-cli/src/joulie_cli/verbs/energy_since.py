"""`kubectl joulie energy --since`: the energy of a time, by the series of the agents or of Kepler in Prometheus."""

import argparse
from argparse import Namespace
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final

from joulie_api.checked_texts import check_node_name
from joulie_cli.arguments import time_back
from joulie_cli.cluster import ClusterReader
from joulie_cli.energy.history import EnergyHistory, agents_history, kepler_history, unusable_error
from joulie_cli.energy.queries import AGENT_METRIC, EARLIER_KEPLER_METRIC, KEPLER_METRIC, agents_query, kepler_query
from joulie_cli.energy.rows import EnergyOwner, EnergyView, parts_sentence, unknown_sentences
from joulie_cli.layout import age, counted, percent, some_names
from joulie_cli.output import CliError, ExitCode
from joulie_cli.prometheus import FORMS, NamedPrometheus, prometheus_address
from joulie_core.timestamps import rfc3339

BY_NAMESPACE: Final = "namespace"
_LEAST_S: Final = 60.0
_MOST_S: Final = 5 * 365 * 86_400.0
_NAMESPACE_LENGTH: Final = 63


class HistorySource(StrEnum):
    """Whose series the energy of a time is taken from."""

    AGENTS = "agents"
    KEPLER = "kepler"


#: What each source tells energy of below the namespace.
_OWNERS: Final = {HistorySource.AGENTS: EnergyOwner.WORKLOAD, HistorySource.KEPLER: EnergyOwner.POD}


def add_since_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the sums and of their time."""
    parser.add_argument(
        "--by",
        choices=(*(each.value for each in EnergyOwner), BY_NAMESPACE),
        help="sums; workload by default, of Kepler pod, as it has no workloads",
    )
    parser.add_argument(
        "--since", type=_since, metavar="TIME", help="time back, as 90m, 24h or 30d, up to 1825d; needs --prometheus"
    )
    parser.add_argument(
        "--prometheus", type=prometheus_address, metavar="WHERE",
        help="for --since: a URL, or NAMESPACE/SERVICE[:PORT] through the API server's proxy, port 9090 by default",
    )  # fmt: skip
    parser.add_argument(
        "--source", choices=[each.value for each in HistorySource], default=HistorySource.AGENTS.value,
        help="whose series --since takes; agents by default",
    )  # fmt: skip


def check_since_options(options: Namespace) -> None:
    """Raise CliError where options do not go together."""
    if options.since is None and (options.prometheus is not None or options.source != HistorySource.AGENTS):
        raise _usage("--prometheus and --source are of a time", "--since TIME names it, as 24h or 30d")
    if options.since is not None and options.prometheus is None:
        raise _usage(
            "--since needs a Prometheus that scrapes the nodes: no object of the cluster has a history",
            f"--prometheus names it: {FORMS}, as monitoring/prometheus-operated:9090",
        )
    owner = _OWNERS[HistorySource(options.source)]
    if options.by not in {None, owner, BY_NAMESPACE}:
        raise _usage(f"--source {options.source} has no series by {options.by}", f"--by {owner} or --by {BY_NAMESPACE}")
    if options.since is not None and not _is_namespace(options.namespace):
        raise _usage(f"-n {options.namespace!r}: no namespace can have that name", "kubectl get namespaces has them")


async def energy_of_time(cluster: ClusterReader, options: Namespace) -> EnergyView:
    """Return the energy of the time of the options.

    Raises:
        CliError: Prometheus does not answer, refuses, or has no series.
    """
    prometheus = NamedPrometheus(cluster.client, options.prometheus)
    span_s, namespace, by_owner = round(options.since), options.namespace, options.by != BY_NAMESPACE
    source = HistorySource(options.source)
    if source is HistorySource.KEPLER:
        samples = await prometheus.query(kepler_query(span_s, by_pod=by_owner, namespace=namespace))
        history = kepler_history(samples, span_s, prometheus.where)
    else:
        samples = await prometheus.query(agents_query(span_s, by_workload=by_owner, namespace=namespace))
        history = agents_history(samples, span_s, prometheus.where)
    if not samples:
        raise _no_series(source, prometheus.where, span_s)
    unusable = unusable_error(history, prometheus.where)
    owner = _OWNERS[source]
    return EnergyView(
        history.rows,
        list(_sentences(history, source, span_s)),
        f"No {owner} has a series of that time.",
        _data(history, source, span_s),
        owner,
        [] if unusable is None else [unusable],
    )


def _no_series(source: HistorySource, where: str, span_s: int) -> CliError:
    if source is HistorySource.KEPLER:
        metrics, way_out = f"{KEPLER_METRIC} or {EARLIER_KEPLER_METRIC}", "is Kepler installed, and scraped by it?"
    else:
        metrics = AGENT_METRIC
        way_out = "set agent.energyByPod.enabled of the chart, and let it scrape the agents: docs/monitoring.md"
    return CliError(f"Prometheus {where} has no series {metrics} of the last {age(span_s)}", way_out)


def _sentences(history: EnergyHistory, source: HistorySource, span_s: int) -> Iterator[str]:
    """Yield what is told below the table."""
    if source is HistorySource.AGENTS:
        yield parts_sentence(history.parts)
        yield from unknown_sentences(history.unknown_s or 0.0)
    else:
        yield (
            "Allocated by Kepler by CPU time, of CPU packages alone. It states no bounds, and idle energy is no pod's."
        )
    if history.earlier_left_out:
        yield f"Kepler before 0.10 has series of that time, too ({EARLIER_KEPLER_METRIC}); they are in no sum."
    until = "" if history.until_s is None else f" to {rfc3339(history.until_s, 'seconds')}"
    yield f"The last {age(span_s)}{until}, with the first and the last scrape extrapolated to its ends by Prometheus."
    if not history.seen:
        yield "On which nodes, and for how much of that time, is unknown."
        return
    partly = history.partly_seen
    told = f"{counted(len(history.seen), 'node')} had series"
    if partly:
        names = some_names(f"{name} {percent(100.0 * history.seen[name])}" for name in partly)
        told += f", {len(partly)} of them for a part of the time only: {names}; energy of the rest may be in no sum"
    yield f"{told}."


def _data(history: EnergyHistory, source: HistorySource, span_s: int) -> dict[str, Any]:
    """Return what stands beside the rows; null for what is unknown."""
    return {
        "source": source,
        "sinceSeconds": span_s,
        "until": None if history.until_s is None else rfc3339(history.until_s, "seconds"),
        "partsJoules": {part.value: joules for part, joules in history.parts.items()} or None,
        "unknownSeconds": history.unknown_s,
        "nodes": {name: {"seenShare": share} for name, share in sorted(history.seen.items())},
    }


def _since(text: str) -> float:
    return time_back(text, least_s=_LEAST_S, most_s=_MOST_S, example="90m, 24h or 30d, from 1m to 1825d")


def _is_namespace(name: str | None) -> bool:
    """Return whether a namespace can have a name, which is then text without quotes."""
    if name is None:
        return True
    try:
        check_node_name(name)
    except ValueError:
        return False
    return 0 < len(name) <= _NAMESPACE_LENGTH and "." not in name


def _usage(problem: str, way_out: str) -> CliError:
    return CliError(problem, way_out, ExitCode.USAGE)
