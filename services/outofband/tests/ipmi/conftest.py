"""Debian's ipmi_sim with DCMI."""

import pytest
from services.outofband.tests.ipmi.simulated import compile_dcmi, ipmi_sim


@pytest.fixture(scope="session")
def module(tmp_path_factory):
    """The DCMI module, compiled."""
    return compile_dcmi(tmp_path_factory.mktemp("dcmi"))


@pytest.fixture
async def simulated(module, tmp_path):
    """One ipmi_sim."""
    async with ipmi_sim(module, tmp_path) as found:
        yield found
