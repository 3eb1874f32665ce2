from statistics import fmean

import pytest

from joulie_core.power.server import ServerModels
from joulie_sim.calibrate.results import FitError, ServerResult, read_results
from joulie_sim.calibrate.servers import (
    cpu_of,
    evaluate_servers,
    fit_servers,
    generation,
    left_out,
    measured_left_out,
)

#: Watts at the wall, less the rest of the server, over the TDP.
SHARES = (0.1, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1.0)


def server(model="AMD EPYC 7763", *, sockets=2, tdp_watts=280.0, memory_gib=256.0, vendor="one", factor=1.0):
    """Return a server of which 10 W and 0.2 W per GiB are not its packages'."""
    rest = 10 + 0.2 * memory_gib
    wall = tuple(rest + factor * share * tdp_watts * sockets for share in SHARES)
    return ServerResult(vendor, model, "AMD", sockets, tdp_watts, memory_gib, wall)


FLEET = [
    server(sockets=sockets, memory_gib=memory_gib, vendor=vendor)
    for sockets, memory_gib, vendor in (
        (1, 64, "one"),
        (1, 512, "two"),
        (2, 128, "one"),
        (2, 1024, "three"),
        (4, 256, "two"),
    )
]


def test_the_fit_finds_the_rest_of_a_server_and_the_shares_of_the_tdp():
    models = fit_servers(FLEET)
    assert (models.rest_watts, models.rest_watts_per_gib) == (10.0, 0.2)
    assert models.tdp_shares["milan"] == pytest.approx(SHARES)
    assert models.shapes["milan"] == pytest.approx([(share - 0.1) / 0.9 for share in SHARES], abs=1e-4)


def test_models_have_no_error_on_servers_that_follow_them():
    errors = evaluate_servers(FLEET, fit_servers(FLEET))
    assert max(errors.known_pct + errors.tdp_memory_pct) < 0.1
    assert len(errors.measured_pct) == len(FLEET)


def test_what_is_left_out_is_not_in_the_fit():
    # More than the others, so that a fit with them would follow them.
    odd = [server(vendor="odd", factor=2.0) for _ in range(9)]
    errors = left_out([*FLEET, *odd], lambda result: result.vendor)
    assert min(errors.tdp_memory_pct[-len(odd) :]) > 30


def test_a_result_is_compared_with_the_median_of_the_others_of_its_model():
    same = [server() for _ in range(3)]
    models = fit_servers(FLEET)
    errors = measured_left_out([*same, server(factor=2.0), server(sockets=1)], models)
    assert errors.single == 1, "one of its number of sockets"
    assert errors.left_out_pct[:3] == pytest.approx((0.0, 0.0, 0.0), abs=0.1)
    # Half the watts but for the rest of the server.
    assert 25 < errors.left_out_pct[3] < 50


def test_a_group_of_fewer_than_three_results_has_no_shape_of_its_own():
    models = fit_servers([*FLEET, server("AMD EPYC 7742", tdp_watts=225.0), server("AMD EPYC 7742", tdp_watts=225.0)])
    assert sorted(models.shapes) == ["AMD", "any", "milan"]
    with pytest.raises(FitError, match="2 server results"):
        fit_servers(FLEET[:2])


def test_a_cpu_is_the_inventorys_very_model_only_with_its_tdp():
    spec, very_model = cpu_of(server())
    assert (spec.key, very_model) == ("amd-epyc-7763", True)
    assert cpu_of(server(tdp_watts=240.0))[1] is False
    assert cpu_of(server("AMD EPYC 7B13"))[1] is False


def test_a_cpu_of_another_maker_stands_for_itself():
    result = ServerResult("one", "Ampere Altra Max M128-30", "Ampere", 1, 250.0, 256.0, tuple(range(100, 210, 10)))
    assert generation(result) == "Ampere"
    assert evaluate_servers([result], ServerModels.load()).known_pct[0] < 30


def test_errors_on_server_vendors_left_out_of_the_fit_stay_within_their_aims(public_data):
    results = read_results(public_data("specpower/results.csv"))
    errors = left_out(results, lambda each: each.vendor)
    assert len(errors.known_pct) == len(results) > 100
    assert fmean(errors.known_pct) <= 7
    assert fmean(errors.tdp_pct) <= 18
    assert fmean(errors.tdp_memory_pct) <= 16


def test_errors_on_generations_left_out_of_the_fit_are_known(public_data):
    errors = left_out(read_results(public_data("specpower/results.csv")), generation)
    assert fmean(errors.known_pct) <= 7
    assert 20 <= fmean(errors.tdp_pct) <= 30


def test_the_shipped_constants_have_the_stated_errors_on_what_they_are_fitted_to(public_data):
    errors = evaluate_servers(read_results(public_data("specpower/results.csv")), ServerModels.load())
    assert len(errors.measured_pct) > 100
    for values, limit in ((errors.measured_pct, 5), (errors.known_pct, 4), (errors.tdp_pct, 13)):
        assert fmean(values) <= limit


def test_a_measured_curve_has_a_larger_error_on_results_that_are_not_in_it(public_data):
    results = read_results(public_data("specpower/results.csv"))
    within = evaluate_servers(results, ServerModels.load()).measured_pct
    outside = measured_left_out(results, ServerModels.load())
    assert len(outside.left_out_pct) + outside.single == len(within)
    assert fmean(within) < fmean(outside.left_out_pct) <= 7.5
