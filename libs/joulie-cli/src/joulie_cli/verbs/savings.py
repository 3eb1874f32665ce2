"""`kubectl joulie savings`: what Joulie has saved by its own estimate, with interval and time that is unknown."""

import argparse
import math
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from joulie_api.energy_factors import EmissionsFactor, EnergyFactors, EnergyPrice
from joulie_api.errors import NotFound
from joulie_api.resources import CONFIG_MAPS
from joulie_api.savings import LEDGER_NAME, read_ledger
from joulie_cli.arguments import add_verb, cluster_options, format_option, time_back
from joulie_cli.cluster import ClusterReader, connect
from joulie_cli.factors import (
    RELEASE_NAMESPACE,
    FactorsFound,
    described,
    factors_data,
    find_factors,
    kind_of,
)
from joulie_cli.layout import Cell, Line, TableColumn, age, line, pairs, paragraph, table
from joulie_cli.output import CliError, ExitCode, show
from joulie_core.savings import EstimateRange, LedgerPeriod, Lever, SavingsLedger, SavingsSum
from joulie_core.savings.ledger import MOST_DAYS, NO_SUM, LeverSums
from joulie_core.units import JOULES_PER_KWH

_COLUMNS: Final = (
    TableColumn("LEVER"),
    TableColumn("SAVED, kWh", right=True),
    TableColumn("FROM", right=True),
    TableColumn("TO", right=True),
    TableColumn("UNKNOWN", right=True),
)
_TOTAL: Final = "total"


@dataclass(frozen=True, slots=True)
class SavingsReport:
    """Savings that are shown: of a time, and at what price and emission they are counted."""

    ledger: SavingsLedger
    sums: LeverSums
    now_s: float
    #: Where the time begins: not before the ledger does.
    start_s: float
    counted: FactorsFound = field(default_factory=FactorsFound)

    @property
    def total(self) -> EstimateRange:
        """Joules of all levers."""
        return sum((each.joules for each in self.sums.values()), EstimateRange())

    @property
    def power_watts(self) -> EstimateRange | None:
        """Mean watts of the last full hour; None where any of it is unknown."""
        hour = int(self.ledger.until_s // LedgerPeriod.HOUR.seconds) - 1
        sums = self.ledger.hours.get(hour)
        if sums is None or any(each.unknown_s for each in sums.values()):
            return None
        joules = sum((each.joules for each in sums.values()), EstimateRange())
        return joules.times(1.0 / LedgerPeriod.HOUR.seconds)

    def _counted(self, each_kwh: float | None) -> dict[str, float] | None:
        return None if each_kwh is None else _range_data(self.total.times(each_kwh), JOULES_PER_KWH)

    def data(self) -> dict[str, Any]:
        """Return the report for JSON and YAML."""
        price, emissions = self.counted.factors.price, self.counted.factors.emissions
        levers = {lever.value: _sum_data(self.sums.get(lever, NO_SUM)) for lever in Lever}
        return {
            "sinceSeconds": self.start_s,
            "untilSeconds": self.ledger.until_s,
            "levers": levers,
            "total": _range_data(self.total, JOULES_PER_KWH),
            "lastHourWatts": None if self.power_watts is None else _range_data(self.power_watts, 1.0),
            "money": self._counted(None if price is None else price.per_kwh),
            "co2eKilograms": self._counted(None if emissions is None else emissions.kilograms_per_kwh),
            "factors": factors_data(self.counted.factors),
        }


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "savings",
        run,
        summary="what Joulie has saved here, by its own estimate",
        description="By lever: nodes that sleep, caps, and the score that places pods, each on top of those before "
        "it, so that the total counts no watt twice. FROM and TO are the interval of the estimate. UNKNOWN is the time "
        "of which nothing was seen; nothing is saved in it. Negative: more was drawn than without the lever. "
        "docs/savings.md has the method.",
        example="kubectl joulie savings --since 7d\n"
        "kubectl joulie savings --since 30d --price 0.25 --grams-per-kwh 350",
        parents=[cluster_options(), format_option(wide=False)],
    )
    parser.add_argument(
        "--since", type=_since, default=7.0 * LedgerPeriod.DAY.seconds, metavar="TIME",
        help=f"hours or days back, as 12h or 7d, the default; up to {MOST_DAYS}d, days beyond 8 whole in UTC",
    )  # fmt: skip
    parser.add_argument(
        "--price",
        type=_amount,
        metavar="PRICE",
        help="of a kWh, in your currency; else of the ConfigMap joulie-energy-factors",
    )
    parser.add_argument(
        "--grams-per-kwh", type=_amount, metavar="GRAMS", help="CO2e of a kWh of your supply; else of that ConfigMap"
    )
    parser.add_argument(
        "-n",
        "--namespace",
        default=RELEASE_NAMESPACE,
        metavar="NAME",
        help=f"of the operator; {RELEASE_NAMESPACE} by default",
    )


async def run(options: Namespace) -> ExitCode:
    """Print what was saved."""
    async with connect(options) as cluster:
        try:
            raw = await cluster.client.get(CONFIG_MAPS, LEDGER_NAME, options.namespace)
        except NotFound as error:
            raise CliError(
                f"namespace {options.namespace!r} has no ConfigMap {LEDGER_NAME!r}: nothing is estimated",
                "the chart's operator.savings.enabled begins it; -n names another namespace of the operator",
            ) from error
        ledger = read_ledger(raw)
        counted = await _factors(options, cluster)
    now_s = time.time()
    start_s = max(now_s - options.since, ledger.begun_s)
    found = SavingsReport(ledger, ledger.since(start_s), now_s, start_s, counted)
    show(options, found.data(), lambda width: _lines(found, width))
    if counted.error is not None:
        raise counted.error
    return ExitCode.OK


async def _factors(options: Namespace, cluster: ClusterReader) -> FactorsFound:
    """Return the factors of the options, and of the ConfigMap what they do not name."""
    price = None if options.price is None else EnergyPrice(options.price)
    emissions = None if options.grams_per_kwh is None else EmissionsFactor(options.grams_per_kwh)
    if price is not None and emissions is not None:
        return FactorsFound(EnergyFactors(price, emissions))
    found = await find_factors(cluster, options.namespace)
    known = found.factors
    return replace(found, factors=EnergyFactors(price or known.price, emissions or known.emissions))


def _since(text: str) -> float:
    most_s = MOST_DAYS * LedgerPeriod.DAY.seconds
    return time_back(text, least_s=1.0, most_s=most_s, example=f"12h or 7d, up to {MOST_DAYS}d")


def _amount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 on")
    return value


def _range_data(found: EstimateRange, unit: float) -> dict[str, float]:
    return {"lower": found.lower / unit, "middle": found.middle / unit, "upper": found.upper / unit}


def _sum_data(found: SavingsSum) -> dict[str, Any]:
    return {"kwh": _range_data(found.joules, JOULES_PER_KWH), "unknownSeconds": found.unknown_s}


def _lines(found: SavingsReport, width: int | None) -> list[Line]:
    rows = [_row(lever.value, found.sums.get(lever, NO_SUM)) for lever in Lever]
    unknown_s = max((each.unknown_s for each in found.sums.values()), default=0.0)
    rows.append(_row(_TOTAL, SavingsSum(found.total, unknown_s)))
    note = paragraph(found.counted.note, width=width) if found.counted.note else []
    return [*table(_COLUMNS, rows, width), line(), *pairs(_fields(found), width), *note]


def _row(name: str, found: SavingsSum) -> list[Cell]:
    kwh = found.joules.times(1.0 / JOULES_PER_KWH)
    figures = (f"{value:.1f}" for value in (kwh.middle, kwh.lower, kwh.upper))
    return [Cell(name), *map(Cell, figures), Cell(age(found.unknown_s) if found.unknown_s >= 1.0 else "0s")]


def _fields(found: SavingsReport) -> Iterator[tuple[str, str]]:
    yield "Time", f"{age(found.ledger.until_s - found.start_s)}, up to {age(found.now_s - found.ledger.until_s)} ago"
    power = found.power_watts
    yield "Last hour", "unknown" if power is None else f"{_interval(power, '.0f')} W"
    kwh = found.total.times(1.0 / JOULES_PER_KWH)
    price, emissions = found.counted.factors.price, found.counted.factors.emissions
    if price is not None:
        yield "Money", f"{_interval(kwh.times(price.per_kwh), '.2f')} {price.currency or ''}".rstrip()
    if emissions is not None:
        kilograms = kwh.times(emissions.kilograms_per_kwh)
        yield "CO2e", f"{_interval(kilograms, '.1f')} kg, {kind_of(emissions)}"
    for text in described(found.counted.factors):
        name, _, value = text.partition(": ")
        yield f"{name} by", value


def _interval(found: EstimateRange, form: str) -> str:
    return f"{found.middle:{form}} [{found.lower:{form}}, {found.upper:{form}}]"
