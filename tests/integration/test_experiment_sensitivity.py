"""The study of sensitivity: constants are moved, and only while a simulation uses them."""

from dataclasses import replace

import pytest
from experiments.config import Experiment
from experiments.sensitivity import ARM_NAMES, BASE, MOVES, SHIPPED, arm_of, constants_in_force, shipped

from joulie_core.hardware.inventory import Inventory
from joulie_core.power.server import ServerModels
from joulie_sim.engine import job_flow
from joulie_sim.engine.arms import ARMS


def test_the_constants_that_a_study_of_sensitivity_starts_from_are_those_that_ship():
    constants = shipped()
    inventory = Inventory(constants.inventory)
    assert (inventory.cpus, inventory.gpus) == (Inventory.load().cpus, Inventory.load().gpus)
    assert constants.servers is ServerModels.load()
    assert constants.sensitivities == job_flow._SENSITIVITIES


@pytest.mark.parametrize("move", [key for key in MOVES if MOVES[key](shipped()).sleep != shipped().sleep], ids=" ".join)
def test_a_move_of_sleep_changes_the_arm_whose_nodes_sleep_alone(move):
    constants = MOVES[move](shipped())
    assert replace(constants, sleep=shipped().sleep) == replace(shipped(), servers=constants.servers)
    moved = {name for name in ARM_NAMES if arm_of(name, constants) != ARMS[name]}
    assert moved == {"packing_score_sleep_shared"}
    assert arm_of("packing_score_sleep_shared", constants).sleep == constants.sleep


@pytest.mark.parametrize(
    "move",
    [key for key in MOVES if key[0] != SHIPPED and MOVES[key](shipped()).sleep == shipped().sleep],
    ids=" ".join,
)
def test_a_move_changes_what_the_models_state_only_while_it_is_in_force(move):
    def stated(inventory):
        experiment = Experiment.read(BASE)
        machines = experiment.machines(inventory)
        sensitivities = job_flow._SENSITIVITIES
        return (
            [group.power.curves for group in machines.groups],
            sensitivities,
            [group.view.gpu.spec for group in machines.groups if group.view.gpu],
        )

    before = stated(None)
    with constants_in_force(MOVES[move](shipped())) as inventory:
        assert stated(inventory) != before
    assert stated(None) == before
