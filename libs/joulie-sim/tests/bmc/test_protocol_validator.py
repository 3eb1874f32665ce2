"""DMTF's protocol validator judges the simulated BMC by the Redfish specification."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from joulie_devcluster.host.process import base_environment

#: Assertions that fail, and what the validator says about them.
DECLARED = {
    # aiohttp's parser refuses a method that is not in HTTP's registry, before the BMC is asked.
    "PROTO_HTTP_UNSUPPORTED_METHODS": ["The service response returned status code 400; expected 405 or 501"],
}

_JUDGE = Path(__file__).with_name("judge.py")


async def judged(served):
    command = [sys.executable, _JUDGE, served.address, served.ca]
    # Without certificates of the environment, which the validator's HTTP client prefers to those it is given.
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=base_environment())
    output, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(output)


@pytest.mark.parametrize("profile", ["plain", "xcc2"])
async def test_the_validator_finds_no_failure_but_those_declared(serve, profile):
    served = await serve(profile)
    found = await judged(served)
    assert found["failed"] == DECLARED
    assert found["counts"]["PASS"] > 100
    assert served.bmc.sessions == {}
    assert list(served.bmc.accounts.by_id) == ["1"]
