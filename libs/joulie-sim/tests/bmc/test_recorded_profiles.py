"""The words for resets of vendors' profiles are those of answers that were recorded."""

import json

import pytest

from joulie_sim.bmc.profiles import PROFILES


@pytest.mark.parametrize(
    ("profile", "recorded", "model"),
    [
        ("idrac9", "dell/system.embedded.1.json", "PowerEdge R6515"),
        ("supermicro", "supermicro/smc_1.14.0_systems_1.json", "SYS-510T-MR-EI018"),
    ],
)
def test_a_profile_has_the_words_that_its_vendor_has(public_data, profile, recorded, model):
    system = json.loads(public_data(f"redfish-recorded/{recorded}").read_text())
    found = PROFILES[profile]
    words = found.reset_types if found.reset_words is None else found.reset_words
    named = system["Actions"]["#ComputerSystem.Reset"]["ResetType@Redfish.AllowableValues"]
    assert (system["Model"], sorted(words)) == (model, sorted(named))
