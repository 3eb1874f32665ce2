"""Money and emissions of energy by the ConfigMap of the administrators, for the verbs that show energy."""

from dataclasses import dataclass, field
from typing import Any, Final

from joulie_api.energy_factors import FACTORS_NAME, EmissionsFactor, EnergyFactors, decode_factors
from joulie_api.errors import DecodeError, Forbidden, NotFound
from joulie_api.resources import CONFIG_MAPS
from joulie_cli.cluster import ClusterReader
from joulie_cli.output import CliError

#: Namespace of the release by default.
RELEASE_NAMESPACE: Final = "joulie-system"


@dataclass(frozen=True, slots=True)
class FactorsFound:
    """Factors, and what is wrong with them; without a ConfigMap neither."""

    factors: EnergyFactors = field(default_factory=EnergyFactors)
    #: To be told beside the energy; empty where nothing is.
    note: str = ""
    #: To be raised after the energy was shown: the ConfigMap is invalid.
    error: CliError | None = None


async def find_factors(cluster: ClusterReader, namespace: str) -> FactorsFound:
    """Return the factors of the release in `namespace`; a ConfigMap that cannot be used is told and not raised.

    Raises:
        KubeError: the API server cannot be reached or does not answer.
    """
    try:
        return FactorsFound(decode_factors(await cluster.client.get(CONFIG_MAPS, FACTORS_NAME, namespace)))
    except NotFound:
        return FactorsFound()
    except Forbidden:
        return FactorsFound(
            note=f"Money and CO2e are not known: this user may not read the ConfigMap {FACTORS_NAME} in namespace "
            f"{namespace}; the Role joulie-viewer there permits it."
        )
    except DecodeError as error:
        way_out = f"correct it with kubectl edit configmap {FACTORS_NAME} -n {namespace}, or the chart's energy.factors"
        return FactorsFound(error=CliError(error.message, f"{way_out}; docs/energy-by-pod.md has the keys"))


def described(factors: EnergyFactors) -> list[str]:
    """Return a sentence for each factor: what was multiplied, and where it is from."""
    found = []
    if factors.price is not None:
        found.append(f"Money: {factors.price.per_kwh:.9g} {factors.price.currency or ''}".rstrip() + " for each kWh.")
    if factors.emissions is not None:
        grams, source = factors.emissions.grams_per_kwh, factors.emissions.source
        figure = f"CO2e: {grams:.9g} g for each kWh, {kind_of(factors.emissions)} emissions."
        found.append(f"{figure} Source: {source}" if source else figure)
    return found


def factors_data(factors: EnergyFactors) -> dict[str, Any]:
    """Return the factors for JSON and YAML; null for what is not given."""
    price, emissions = factors.price, factors.emissions
    return {
        "price": None if price is None else {"perKwh": price.per_kwh, "currency": price.currency},
        "emissions": None
        if emissions is None
        else {"gramsPerKwh": emissions.grams_per_kwh, "kind": emissions.kind, "source": emissions.source},
    }


def kind_of(emissions: EmissionsFactor) -> str:
    """Return the kind of a figure; `unstated` for one of the command line."""
    return emissions.kind or "unstated"
