"""The chart's ConfigMap of energy factors is what `kubectl joulie` reads. Needs Helm and no cluster."""

import json

import pytest
from tests.chart import Helm, HelmError, find

from joulie_api.energy_factors import EmissionsFactor, EmissionsKind, EnergyFactors, EnergyPrice, decode_factors

FACTORS = {
    "pricePerKwh": 0.25,
    "currency": "EUR",
    "gramsCo2ePerKwh": 350,
    "co2eKind": "average",
    "co2eSource": 'of "the grid", 2025: 1e3',
}


def test_energy_factors_are_a_config_map_that_kubectl_joulie_reads(helm: Helm):
    manifests = helm.render({"energy": {"factors": FACTORS}}, namespace="power")
    made = find(manifests, "ConfigMap", "joulie-energy-factors")
    assert made["metadata"]["namespace"] == "power"
    found = decode_factors(json.dumps(made).encode())
    emissions = EmissionsFactor(350.0, EmissionsKind.AVERAGE, 'of "the grid", 2025: 1e3')
    assert found == EnergyFactors(EnergyPrice(0.25, "EUR"), emissions)


@pytest.mark.parametrize("price", [0, 0.00001, 1000000, 123.456789])
def test_figures_keep_their_value_whatever_form_yaml_gives_them(helm: Helm, price):
    values = {"energy": {"factors": {"pricePerKwh": price, "currency": "EUR"}}}
    made = find(helm.render(values), "ConfigMap", "joulie-energy-factors")
    assert decode_factors(json.dumps(made).encode()).price == EnergyPrice(float(price), "EUR")


def test_without_factors_there_is_no_config_map_and_viewers_may_read_it_if_somebody_makes_one(helm: Helm):
    manifests = helm.render({"extender": {"enabled": False}})
    assert "joulie-energy-factors" not in {each["metadata"]["name"] for each in manifests}
    role = find(manifests, "Role", "joulie-viewer")
    named = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["joulie-energy-factors"]}
    assert role["rules"] == [{**named, "verbs": ["get"]}]


@pytest.mark.parametrize(
    "factors",
    [
        {"pricePerKwh": 0.25},
        {"currency": "EUR"},
        {"gramsCo2ePerKwh": 350, "co2eKind": "average"},
        {**FACTORS, "co2eKind": "mean"},
        {**FACTORS, "pricePerKwh": -1},
        {**FACTORS, "pricePerKwh": 1e308},
        {**FACTORS, "pricePerKwh": "0.25"},
        {**FACTORS, "co2eSource": ""},
        {**FACTORS, "price": 1},
    ],
)
def test_factors_that_kubectl_joulie_would_refuse_are_refused_by_the_chart(helm: Helm, factors):
    with pytest.raises(HelmError, match="factors"):
        helm.render({"energy": {"factors": factors}})
