"""Answers of real BMCs, as they were recorded (github.com/bmc-toolbox/bmclib, internal/redfishwrapper/fixtures)."""

import json
import os
from pathlib import Path

import pytest
from services.outofband.tests.redfish.tree import Tree, members

from joulie_outofband.redfish.discovery import discover

_DELL = ("dell/systems.json", "dell/system.embedded.1.json", "/redfish/v1/Systems/System.Embedded.1")
_SUPERMICRO = ("supermicro/smc_1.14.0_systems.json", "supermicro/smc_1.14.0_systems_1.json", "/redfish/v1/Systems/1")


@pytest.fixture
def recorded():
    """Return a recorded answer by its file."""
    roots = [os.environ.get("JOULIE_DATA_DIR"), Path(__file__).parents[4] / "shared" / "data"]
    found = [Path(root) / "redfish-recorded" for root in roots if root]
    directory = next((each for each in found if each.is_dir()), None)
    if directory is None:
        pytest.skip("no redfish-recorded in the directory JOULIE_DATA_DIR")
    return lambda name: json.loads((directory / name).read_text())


@pytest.mark.parametrize(
    ("systems", "system", "path", "graceful"),
    [
        (*_DELL, ("GracefulRestart", "GracefulShutdown", "PushPowerButton")),
        (*_SUPERMICRO, ("GracefulShutdown", "GracefulRestart")),
    ],
)
async def test_a_recorded_system_is_found_with_its_resets(recorded, systems, system, path, graceful):
    body = recorded(system)
    chassis = {each["@odata.id"]: {} for each in body["Links"]["Chassis"]} | {"/redfish/v1/Chassis": members()}
    layout = await discover(Tree({"/redfish/v1/Systems": recorded(systems), path: body, **chassis}), None)
    assert (layout.system, layout.reset) == (path, f"{path}/Actions/ComputerSystem.Reset")
    assert {"On", "ForceOff"} < set(layout.reset_types)
    assert tuple(each for each in layout.reset_types if each.startswith(("Graceful", "Push"))) == graceful
