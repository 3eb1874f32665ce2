"""Poison on a real API server, and bulkheads that are removed: a short form of `just hostile`."""

import pytest
from tools.hostile.campaign import Campaign, describe
from tools.hostile.site import run_site

# Poison may be larger than what a client should send in one piece.
pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")]

_SEED = 2
#: A bulkhead of each service, and the subjects by which its absence is noticed.
_REMOVED = {
    "operator": ("pages", ("ResourceClaim", "Pod")),
    "extender": ("decoding", ("kube-scheduler",)),
    "agent": ("containment", ("NodePowerProfile", "agent telemetry")),
    "outofband": ("containment", ("Redfish", "IPMI")),
}


async def test_what_a_real_api_server_takes_leaves_the_good_ones_served(tmp_path) -> None:
    async with run_site(tmp_path, real=True) as site:
        outcome = await Campaign(site, seed=_SEED).run(250, search=False)
    assert not outcome.violations, "\n".join(describe(each, _SEED) for each in outcome.violations)
    planted = {subject for (subject, how), number in outcome.cases.items() if how == "planted" and number}
    assert planted >= {"Node", "Pod", "NodeHardware", "TelemetryProfile", "ResourceClaim", "NodeBMC", "Redfish"}


@pytest.mark.parametrize("service", _REMOVED)
async def test_the_campaign_notices_a_bulkhead_that_is_removed(service: str, tmp_path) -> None:
    bulkhead, subjects = _REMOVED[service]
    async with run_site(tmp_path, real=False, without={service: bulkhead}) as site:
        outcome = await Campaign(site, seed=_SEED, subjects=subjects).run(300, search=False, enough=1)
    assert {each.service for each in outcome.violations} == {service}
