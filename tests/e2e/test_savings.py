"""The estimate of savings on a real API server: its ledger is stored, and goes on after a restart."""

import json

import pytest
from tests.e2e.system import System
from tests.e2e.waiting import eventually

from joulie_api.errors import NotFound
from joulie_api.resources import CONFIG_MAPS
from joulie_api.savings import LEDGER_NAME, read_ledger
from joulie_core.savings import SavingsLedger
from joulie_sim.stack.stack import NAMESPACE

pytestmark = pytest.mark.e2e


@pytest.mark.system(operator={"SAVINGS_ENABLED": "true"})
async def test_the_ledger_is_stored_and_goes_on_after_a_restart(system: System) -> None:
    async def stored() -> SavingsLedger:
        try:
            return read_ledger(await system.view.client.get(CONFIG_MAPS, LEDGER_NAME, NAMESPACE))
        except NotFound as error:
            raise AssertionError("no ledger") from error

    await eventually(stored, within_s=30)
    before = await stored()
    await system.stack.operator.restart()

    async def goes_on() -> None:
        assert (await stored()).until_s > before.until_s

    await eventually(goes_on, within_s=30)
    after = await stored()
    assert after.begun_s == before.begun_s
    raw = json.loads(await system.view.client.get(CONFIG_MAPS, LEDGER_NAME, NAMESPACE))
    assert "set-aside" not in raw["data"]
