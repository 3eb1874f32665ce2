import pytest
from services.operator.tests.power_domains.domain_world import domain_world


@pytest.fixture
async def world(fake_api, fake_client):
    async with domain_world(fake_api, fake_client) as found:
        yield found
