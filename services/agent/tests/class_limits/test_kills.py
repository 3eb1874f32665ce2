"""Processes that limit GPUs by class, killed at random moments: originals are back within the lease."""

import asyncio
import os
import random

import pytest
from services.agent.tests.class_limits.forked_process import ForkingParent
from services.agent.tests.class_limits.kill_campaign import ADMIN, ADMIN_MHZ, STEP_US, KillCampaign, told
from services.agent.tests.class_limits.node_site import GPUS, NodeSite
from services.agent.tests.class_limits.stub_gpus import AMD, NVIDIA

from joulie_agent.class_limits.enforcement import LEASE_S

POWER_LIMIT_MW = 700_000


def _site(directory, vendor, lease_s, parent):
    directory.mkdir()
    # NVML does not tell that an administrator holds a clock: there, only a pod without consent keeps Joulie away.
    apart = {ADMIN} if vendor == NVIDIA else {}
    site = NodeSite(directory, vendor=vendor, lease_s=lease_s, apart=apart, parent=parent)
    for gpu in site.gpus.gpus:
        gpu.set_us = STEP_US
    site.gpus.gpus[ADMIN].lock_mhz, site.gpus.gpus[ADMIN].manual = ADMIN_MHZ, 1
    return site


async def _kill(site, dice, numbers):
    async with site.running():
        campaign = KillCampaign(site, dice)
        await campaign.run(numbers)
    assert site.gpus.locks_mhz == [0] * (GPUS - 1) + [ADMIN_MHZ]
    assert {gpu.limit_mw for gpu in site.gpus.gpus} == {POWER_LIMIT_MW}
    assert site.gpus.gpus[ADMIN].releases == 0
    return campaign


async def _originals_are_back(directory, kills, lease_s, nodes):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    with ForkingParent.running() as parent:
        sites = [_site(directory / f"node-{each}", (NVIDIA, AMD)[each % 2], lease_s, parent) for each in range(nodes)]
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_kill(site, random.Random(seed + each), range(each, kills, nodes)))
                for each, site in enumerate(sites)
            ]
    print(told([task.result() for task in tasks], lease_s))


async def test_after_kills_at_random_moments_the_originals_are_back_within_the_lease(tmp_path):
    await _originals_are_back(tmp_path, kills=20, lease_s=3.0, nodes=5)


@pytest.mark.soak
@pytest.mark.timeout(7_200)
async def test_after_five_hundred_they_are(tmp_path):
    await _originals_are_back(tmp_path, kills=int(os.environ.get("JOULIE_KILLS", "500")), lease_s=LEASE_S, nodes=7)
