import pytest

from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.power_curve import CapResponse
from joulie_sim.calibrate.gpus import evaluate_gpu, fit_response, fit_with_range, left_out_errors, natural_share
from joulie_sim.calibrate.results import CappedRun, FitError, GpuJob, GpuResults, read_results

GPUS = ("p100", "rtx6000", "v100")
SHIPPED = Inventory.load().gpus["nvidia-h100-sxm"].curve.response


def job(natural_watts, *, static_share=0.3, exponent=0.4, limits=(200.0, 175.0, 150.0, 125.0)):
    law = CapResponse(static_share, exponent, 0.4, "test")
    capped = tuple(
        CappedRun(limit, 100 / law.retention(limit, natural_watts, 0.0), min(limit, natural_watts)) for limit in limits
    )
    return GpuJob(str(natural_watts), CappedRun(250.0, 100.0, natural_watts), capped)


def results(name, **law):
    return GpuResults(name, tuple(job(watts, **law) for watts in (130.0, 180.0, 220.0, 240.0)))


def test_the_fit_finds_the_law_that_jobs_follow():
    law = fit_response(results("gpu").jobs)
    assert (law.static_share, law.exponent) == (0.3, 0.4)
    assert evaluate_gpu(results("gpu").jobs, law).all_mae < 1e-9


def test_the_range_of_jobs_that_all_follow_the_law_is_the_law():
    fitted = fit_with_range([results("gpu")])
    assert (fitted.exponent_95, fitted.static_share_95) == ((0.4, 0.4), (0.3, 0.3))


def test_the_gpu_that_is_left_out_is_not_in_the_fit():
    files = [results("one"), results("two"), results("odd", static_share=0.0, exponent=0.6)]
    by_name = {name: (law, errors) for name, law, errors in left_out_errors(files)}
    law, errors = by_name["odd"]
    assert (law.static_share, law.exponent) == (0.3, 0.4)
    assert errors.binding_mae > 0.01
    assert by_name["one"][0] != law


def test_jobs_that_no_cap_binds_have_no_fit_and_no_error_of_binding_caps():
    idle = [job(100.0)]
    assert (evaluate_gpu(idle, SHIPPED).binding, evaluate_gpu(idle, SHIPPED).above_cost) == (0, 0.0)
    with pytest.raises(FitError, match="no cap is below"):
        fit_response(idle)


def test_a_slower_job_than_the_law_expects_is_a_positive_bias():
    slow = [job(240.0, exponent=0.8)]
    errors = evaluate_gpu(slow, CapResponse(0.3, 0.4, 0.4, "test"))
    assert errors.binding_bias == pytest.approx(errors.binding_mae)


@pytest.fixture
def sweeps(public_data):
    return [read_results(public_data(f"zeus-gpu-caps/{name}.csv")) for name in GPUS]


def test_the_error_on_a_gpu_left_out_of_the_fit_stays_within_its_aim(sweeps):
    for name, law, errors in left_out_errors(sweeps):
        assert errors.binding > 30, name
        assert errors.binding_mae <= 0.08, name
        assert errors.all_mae <= 0.05, name
        assert abs(errors.binding_bias) <= 0.02, name
        assert law.exponent == pytest.approx(SHIPPED.exponent, abs=0.02), name


def test_a_cap_above_natural_power_costs_nothing(sweeps):
    for each in sweeps:
        errors = evaluate_gpu(each.jobs, SHIPPED)
        assert errors.above_cost == 0.0
        assert abs(errors.measured_above_cost) <= 0.01


def test_measured_jobs_average_below_a_binding_cap_so_that_the_model_understates_savings(sweeps):
    for each in sweeps:
        assert 0.88 <= evaluate_gpu(each.jobs, SHIPPED).draw_over_cap <= 0.96


def test_the_shipped_natural_power_is_that_of_the_measured_jobs(sweeps):
    keys = dict(zip(GPUS, ("nvidia-p100-pcie", "nvidia-quadro-rtx-6000", "nvidia-v100-pcie"), strict=True))
    for each in sweeps:
        spec = Inventory.load().gpus[keys[each.name]]
        assert spec.natural_watts / spec.default_watts == pytest.approx(natural_share(each), abs=0.001)


def test_measured_energy_per_epoch_is_less_at_the_knee_than_free_and_than_far_below(sweeps):
    # RTX 6000 and V100 have limits on both sides of the knee; P100's lowest is above it.
    for each in sweeps[1:]:
        knee = SHIPPED.knee_watts(1.0, 0.0)
        at_knee, below = [], []
        for found in each.jobs:
            free_joules = found.free.watts * found.free.seconds
            for run in found.capped:
                share = run.limit_watts / found.free.watts
                saved = run.watts * run.seconds / free_joules
                if abs(share - knee) < 0.06:
                    at_knee.append(saved)
                elif share < knee - 0.06:
                    below.append(saved)
        assert sorted(at_knee)[len(at_knee) // 2] < 0.85
        assert sorted(at_knee)[len(at_knee) // 2] < sorted(below)[len(below) // 2]
