import pytest
from services.operator.tests.power_domains.domain_world import domain_world
from services.operator.tests.power_domains.enforced_world import enforced_world


@pytest.fixture
async def world(fake_api, fake_client):
    async with domain_world(fake_api, fake_client) as found:
        yield found


@pytest.fixture
async def enforced(fake_api, fake_client):
    async with enforced_world(fake_api, fake_client) as found:
        yield found
