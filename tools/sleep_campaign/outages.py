"""Outages and clocks: what is away for some time, or wrong."""

import asyncio
from random import Random

from tools.sleep_campaign.choices import MINUTE, going, pause
from tools.sleep_campaign.journal import SITE
from tools.sleep_campaign.site import CampaignSite

from joulie_core.sleep_state import SleepState


async def operator_killed(site: CampaignSite, dice: Random, _number: int) -> None:
    """Kill the operator."""
    if not site.operator.runs:
        return
    await site.operator.kill()
    await pause(dice, 0, 5 * MINUTE)
    site.operator.start()


async def outofband_killed(site: CampaignSite, dice: Random, _number: int) -> None:
    """Kill the out-of-band service."""
    if not site.outofband.runs:
        return
    await site.outofband.kill()
    await pause(dice, 0, dice.choice((MINUTE, 40 * MINUTE)))
    site.outofband.start()


async def api_away(site: CampaignSite, dice: Random, _number: int) -> None:
    """Have the API server away."""
    if site.api.away:
        return
    site.journal.note(SITE, "outage: API server")
    site.api.go_away()
    await pause(dice, 5, 6 * MINUTE)
    site.api.away = False
    site.observer.api_since_s = asyncio.get_running_loop().time()
    site.journal.note(SITE, "outage over: API server")


async def bmc_away(site: CampaignSite, dice: Random, _number: int) -> None:
    """Have a BMC not answer."""
    name = going(site, dice, SleepState.POWERING_OFF, SleepState.ASLEEP, SleepState.WAKING)
    address = site.bmcs[name]
    if address in site.network.unreachable:
        return
    site.journal.note(name, "outage: BMC")
    site.network.unreachable.add(address)
    site.observer.bmc_since_s[name] = float("inf")
    await pause(dice, MINUTE, dice.choice((5 * MINUTE, 100 * MINUTE)))
    site.network.unreachable.discard(address)
    site.observer.bmc_since_s[name] = asyncio.get_running_loop().time()
    site.journal.note(name, "outage over: BMC")


async def extender_away(site: CampaignSite, dice: Random, _number: int) -> None:
    """Have kube-scheduler go on without the extender."""
    site.journal.note(SITE, "outage: extender")
    site.cluster.without_extender = True
    await pause(dice, MINUTE, 10 * MINUTE)
    site.cluster.without_extender = False
    site.journal.note(SITE, "outage over: extender")


async def clock_step(site: CampaignSite, dice: Random, _number: int) -> None:
    """Have the wall clock of a service jump, and jump to the right time later."""
    service = dice.choice(site.services)
    for offset_s in (dice.choice((-1, 1)) * dice.uniform(1, 10 * MINUTE), 0.0):
        site.journal.note(SITE, f"clock: {service.name} is wrong by {offset_s:.0f} s")
        service.wall.offset_s = offset_s
        site.observer.calm_since_s = asyncio.get_running_loop().time() + 10 * MINUTE
        await pause(dice, MINUTE, 20 * MINUTE)
