"""Poison on a real API server, and bulkheads that are removed: a short form of `just hostile`."""

import pytest
from tools.hostile.campaign import Campaign, describe
from tools.hostile.site import run_site

# Poison may be larger than what a client should send in one piece.
pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")]

_SEED = 2
#: The subject by which it is noticed that a service takes only what a decoder documents for invalid input.
_NOTICED = {
    "operator": "Prometheus",
    "agent": "agent telemetry",
    "extender": "kube-scheduler",
    "outofband": "Redfish",
}
#: Its first rounds nest each of these subjects too deeply.
_DEEP_SEED = 105


async def test_what_a_real_api_server_takes_leaves_the_good_ones_served(tmp_path) -> None:
    async with run_site(tmp_path, real=True) as site:
        outcome = await Campaign(site, seed=_SEED).run(250, search=False)
    assert not outcome.violations, "\n".join(describe(each, _SEED) for each in outcome.violations)
    planted = {subject for (subject, how), number in outcome.cases.items() if how == "planted" and number}
    assert planted >= {"Node", "Pod", "NodeHardware", "TelemetryProfile", "ResourceClaim", "NodeBMC", "Redfish"}


@pytest.mark.parametrize("service", _NOTICED)
async def test_the_campaign_notices_a_bulkhead_that_is_removed(service: str, tmp_path) -> None:
    async with run_site(tmp_path, real=False, without={service: "decoding"}) as site:
        campaign = Campaign(site, seed=_DEEP_SEED, subjects=(_NOTICED[service],))
        outcome = await campaign.run(48, search=False, enough=1)
    assert {each.service for each in outcome.violations} == {service}
