"""Energy of one workload, pod or namespace, as a row of the table and of the data."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from joulie_api.energy_factors import EnergyFactors
from joulie_cli.factors import kind_of
from joulie_cli.layout import UNKNOWN, Cell, Line, TableColumn, age, table
from joulie_cli.output import CliError
from joulie_core.attribution.totals import EnergyPart
from joulie_core.units import JOULES_PER_KWH


class EnergyOwner(StrEnum):
    """Owner of energy below the namespace."""

    WORKLOAD = "workload"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class EnergyRow:
    """Energy of one workload, pod or namespace, on all nodes, in joules."""

    namespace: str
    #: Name of the workload or of the pod; empty where the energy is the namespace's.
    owner: str
    device: str
    kind: str
    joules: float
    #: None: no bound is stated.
    lower_joules: float | None
    upper_joules: float | None
    #: Name of the rule that has split the energy; empty for those of the agents.
    rule: str = ""

    def data(self, owner: EnergyOwner, factors: EnergyFactors) -> dict[str, Any]:
        """Return the row for JSON and YAML, with money and emissions as far as their factors are given."""
        named = {"namespace": self.namespace, **({owner.value: self.owner} if self.owner else {})}
        rule = {"rule": self.rule} if self.rule else {}
        sums = {"joules": self.joules, "lowerJoules": self.lower_joules, "upperJoules": self.upper_joules}
        counted = {name: self._times(each_kwh) for name, each_kwh in _multipliers(factors).items()}
        return {**named, "device": self.device, "kind": self.kind, **rule, **sums, **counted}

    def cells(self, factors: EnergyFactors) -> tuple[Cell, ...]:
        """Return the row of the table."""
        kwh = map(_kwh, (self.joules, self.lower_joules, self.upper_joules))
        names = (self.namespace or UNKNOWN, self.owner or UNKNOWN, self.device, self.kind)
        products = (f"{self.joules / JOULES_PER_KWH * each_kwh:.2f}" for each_kwh in _multipliers(factors).values())
        return tuple(map(Cell, (*names, *kwh, *products)))

    def _times(self, each_kwh: float) -> dict[str, float | None]:
        named = (("lower", self.lower_joules), ("point", self.joules), ("upper", self.upper_joules))
        return {name: None if joules is None else joules / JOULES_PER_KWH * each_kwh for name, joules in named}


@dataclass(frozen=True, slots=True)
class EnergyView:
    """Energy as the verb shows it."""

    rows: Sequence[EnergyRow]
    #: What is told below the table.
    sentences: Sequence[str]
    #: What stands in place of a table without rows.
    nothing: str
    #: Beside the rows, for JSON and YAML.
    data: Mapping[str, Any]
    owner: EnergyOwner = EnergyOwner.WORKLOAD
    #: To be raised after the energy was shown.
    errors: Sequence[CliError] = field(default_factory=tuple)


def largest_first(rows: Iterable[EnergyRow]) -> list[EnergyRow]:
    """Return rows by their energy, equal ones by their names."""
    return sorted(rows, key=lambda row: (-row.joules, row.namespace, row.owner, row.device, row.kind))


def energy_table(
    rows: Sequence[EnergyRow], owner: EnergyOwner, factors: EnergyFactors, width: int | None
) -> list[Line]:
    """Return the lines of the table."""
    columns = (
        TableColumn("NAMESPACE"),
        TableColumn(owner.value.upper(), elastic=True),
        TableColumn("DEVICE"),
        TableColumn("KIND"),
        TableColumn("kWh", right=True),
        TableColumn("FROM", right=True),
        TableColumn("TO", right=True),
        *(TableColumn(title, right=True) for title in _titles(factors)),
    )
    return table(columns, (row.cells(factors) for row in rows), width)


def parts_sentence(parts: Mapping[EnergyPart, float]) -> str:
    """Return the sentence about the parts of the energy of all nodes, in joules; one that is missing is unknown."""
    told = (f"{part} {f'{_kwh(parts[part])} kWh' if part in parts else 'unknown'}" for part in EnergyPart)
    return "All nodes: " + ", ".join(told) + "."


def unknown_sentences(unknown_s: float) -> Iterator[str]:
    """Yield the sentence about time whose energy no counter told, in seconds added up over devices."""
    if unknown_s > 0.0:
        yield f"No counter told the energy of {age(unknown_s)}, added up over devices."


def _kwh(joules: float | None) -> str:
    return UNKNOWN if joules is None else f"{joules / JOULES_PER_KWH:.3f}"


def _multipliers(factors: EnergyFactors) -> dict[str, float]:
    """Return what a kWh is multiplied by, by the name of the product."""
    found = {}
    if factors.price is not None:
        found["money"] = factors.price.per_kwh
    if factors.emissions is not None:
        found["co2eKilograms"] = factors.emissions.kilograms_per_kwh
    return found


def _titles(factors: EnergyFactors) -> Iterator[str]:
    if factors.price is not None:
        yield factors.price.currency or "MONEY"
    if factors.emissions is not None:
        yield f"kgCO2e {kind_of(factors.emissions)}"
