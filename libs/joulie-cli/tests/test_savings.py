"""`kubectl joulie savings`: kWh by lever with their interval, and the time of which nothing is known."""

import json
import time

import pytest

from joulie_api.savings import LEDGER_KEY, LEDGER_NAME, ledger_manifest
from joulie_core.savings import EstimateRange, Lever, LeverRate, SavingsLedger

HOUR_S = 3_600.0


def put(fake_api, ledger=None, *, text=None, namespace="joulie-system"):
    body = ledger_manifest(ledger) if ledger is not None else {"data": {LEDGER_KEY: text}}
    metadata = {"name": LEDGER_NAME, "namespace": namespace}
    fake_api.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata} | body)


def made():
    """Two days at 1 kW, 0 W and -100 W, after an hour of which nothing is known."""
    now_s = time.time()
    ledger = SavingsLedger.begin(now_s - 49 * HOUR_S)
    ledger.add_unknown(now_s - 48 * HOUR_S)
    rates = {
        Lever.SLEEP: LeverRate(EstimateRange(900.0, 1_000.0, 1_200.0)),
        Lever.CAPS: LeverRate(),
        Lever.SCORE: LeverRate(EstimateRange(-300.0, -100.0, 50.0)),
    }
    ledger.add(rates, now_s)
    return ledger


async def test_levers_and_their_total_have_an_interval(fake_api, cli):
    put(fake_api, made())
    result = await cli("savings")
    assert (result.code, result.err) == (0, "")
    heading, sleep, caps, score, total, _, *fields = result.out.splitlines()
    assert heading.split() == ["LEVER", "SAVED,", "kWh", "FROM", "TO", "UNKNOWN"]
    assert sleep.split() == ["sleep", "48.0", "43.2", "57.6", "60m"]
    assert caps.split() == ["caps", "0.0", "0.0", "0.0", "60m"]
    assert score.split() == ["score", "-4.8", "-14.4", "2.4", "60m"]
    assert total.split() == ["total", "43.2", "28.8", "60.0", "60m"]
    assert fields[0].split()[:4] == ["Time", "2d,", "up", "to"]
    assert fields[1].split() == ["Last", "hour", "900", "[600,", "1250]", "W"]


async def test_money_and_emissions_are_those_of_the_caller(fake_api, cli):
    put(fake_api, made())
    data = json.loads((await cli("savings", "--price", "0.5", "--grams-per-kwh", "100", "-o", "json")).out)
    assert data["money"] == {
        "lower": pytest.approx(14.4, abs=0.01),
        "middle": pytest.approx(21.6, abs=0.01),
        "upper": pytest.approx(30.0, abs=0.01),
    }
    assert data["co2eKilograms"]["middle"] == pytest.approx(4.32, abs=0.01)
    text = (await cli("savings", "--price", "0.5", "--grams-per-kwh", "100")).out
    assert "21.60 [14.40, 30.00]" in text
    assert "4.3 [2.9, 6.0] kg" in text


async def test_without_a_price_there_is_no_money(fake_api, cli):
    put(fake_api, made())
    data = json.loads((await cli("savings", "-o", "json")).out)
    assert (data["money"], data["co2eKilograms"]) == (None, None)


async def test_since_leaves_out_what_was_before(fake_api, cli):
    put(fake_api, made())
    data = json.loads((await cli("savings", "--since", "1h", "-o", "json")).out)
    # The hour that the time begins in counts whole.
    assert 1.0 <= data["levers"]["sleep"]["kwh"]["middle"] <= 2.0
    assert data["levers"]["sleep"]["unknownSeconds"] == 0.0


async def test_power_of_an_hour_that_is_unknown_is_unknown(fake_api, cli):
    ledger = SavingsLedger.begin(time.time() - 3 * HOUR_S)
    ledger.add_unknown(time.time())
    put(fake_api, ledger)
    assert "Last hour  unknown" in (await cli("savings")).out


@pytest.mark.parametrize("text", ["", "7", "0d", "-1d", "401d", "1w", "7d7d"])
async def test_a_time_of_another_form_is_refused(cli, text):
    with pytest.raises(SystemExit) as ended:
        await cli("savings", f"--since={text}")
    assert ended.value.code == 2


@pytest.mark.parametrize("text", ["x", "-1", "nan", "inf"])
async def test_a_price_that_is_no_number_is_refused(cli, text):
    with pytest.raises(SystemExit) as ended:
        await cli("savings", f"--price={text}")
    assert ended.value.code == 2


async def test_where_nothing_is_estimated_the_way_out_is_named(cli):
    result = await cli("savings")
    assert result.code == 3
    assert "operator.savings.enabled" in result.err


async def test_another_namespace_may_be_named(fake_api, cli):
    put(fake_api, made(), namespace="energy")
    assert (await cli("savings", "-n", "energy")).code == 0


async def test_a_ledger_that_cannot_be_read_is_an_error(fake_api, cli):
    put(fake_api, text="{}")
    result = await cli("savings")
    assert result.code == 3
    assert "ledger" in result.err


def put_factors(fake_api, namespace="joulie-system", **changes):
    metadata = {"name": "joulie-energy-factors", "namespace": namespace}
    emissions = {"gramsCo2ePerKwh": "100", "co2eKind": "marginal", "co2eSource": "grid operator"}
    data = {"pricePerKwh": "0.5", "currency": "SEK", **emissions, **changes}
    fake_api.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


async def test_money_and_emissions_are_those_of_the_config_map_beside_the_ledger(fake_api, cli):
    put(fake_api, made(), namespace="energy")
    put_factors(fake_api, namespace="energy")
    text = (await cli("savings", "-n", "energy")).out
    assert "21.60 [14.40, 30.00] SEK" in text
    assert "4.3 [2.9, 6.0] kg, marginal" in text
    assert "100 g for each kWh, marginal emissions. Source: grid operator" in " ".join(text.split())


async def test_the_command_line_outranks_the_config_map(fake_api, cli):
    put(fake_api, made())
    put_factors(fake_api)
    data = json.loads((await cli("savings", "--price", "1", "-o", "json")).out)
    assert data["factors"]["price"] == {"perKwh": 1.0, "currency": None}
    assert data["factors"]["emissions"] == {"gramsPerKwh": 100.0, "kind": "marginal", "source": "grid operator"}
    assert data["money"]["middle"] == pytest.approx(43.2, abs=0.01)


async def test_an_invalid_config_map_is_an_error_and_the_savings_are_shown_all_the_same(fake_api, cli):
    put(fake_api, made())
    put_factors(fake_api, co2eKind="mean")
    result = await cli("savings")
    assert result.code == 3
    assert "key co2eKind: 'mean' is not average or marginal" in result.err
    assert result.out.splitlines()[4].split() == ["total", "43.2", "28.8", "60.0", "60m"]
