"""GPU models whose limits are lifted, since performance pods wait for them."""

from joulie_core.class_caps.waiting import LIFTED_FOR_S, LiftedModels


def test_limits_of_a_model_are_lifted_as_soon_as_a_performance_pod_waits_for_it():
    lifted = LiftedModels().step({"H100"}, 0.0)
    assert "H100" in lifted
    assert "V100" not in lifted


def test_limits_come_back_a_while_after_the_last_pod_has_gone():
    lifted = LiftedModels().step({"H100"}, 0.0).step({"H100"}, 30.0).step((), 40.0)
    assert "H100" in lifted.step((), 29.0 + LIFTED_FOR_S)
    assert "H100" not in lifted.step((), 30.0 + LIFTED_FOR_S)


def test_models_come_back_one_by_one():
    lifted = LiftedModels().step({"H100"}, 0.0).step({"V100"}, 30.0).step((), LIFTED_FOR_S)
    assert ("H100" in lifted, "V100" in lifted) == (False, True)
    assert lifted.waited_s == {"V100": 30.0}
