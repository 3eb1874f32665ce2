"""Pods that come at random, as people and their tools make them."""

from random import Random
from typing import Final

from tools.sleep_campaign.choices import MINUTE, going, pause
from tools.sleep_campaign.cluster import Workload
from tools.sleep_campaign.pods import PodTemplate
from tools.sleep_campaign.site import CampaignSite

from joulie_core.sleep_state import OUT_OF_SUPPLY

#: Share of pods that people bind by hand and that tolerate everything, as those of `kubectl debug node/NODE` do.
_TOLERATING: Final = 0.7
#: A pass of the out-of-band service over a BMC takes about so long until it sends the request.
_AT_THE_SWITCH_S: Final = 3.0


async def _workload(site: CampaignSite, dice: Random, template: PodTemplate, replicas: int) -> None:
    """Keep pods of a controller for some time."""
    found = site.cluster.workloads[template.app] = Workload(template, replicas)
    await pause(dice, 4 * MINUTE, 20 * MINUTE)
    found.replicas = 0


async def burst(site: CampaignSite, dice: Random, number: int) -> None:
    """Have pods come that need many CPUs."""
    template = PodTemplate(f"burst-{number}", "ReplicaSet", dice.choice((1, 2, 4, 8)))
    await _workload(site, dice, template, dice.randint(3, 14))


async def budget(site: CampaignSite, dice: Random, number: int) -> None:
    """Have pods come that a budget protects."""
    replicas = dice.randint(1, 4)
    template = PodTemplate(f"budget-{number}", "ReplicaSet", 1, min_available=replicas - dice.randint(0, 1))
    await _workload(site, dice, template, replicas)


async def apart(site: CampaignSite, dice: Random, number: int) -> None:
    """Have pods come of which no two are on one node."""
    await _workload(site, dice, PodTemplate(f"apart-{number}", "ReplicaSet", 1, apart=True), dice.randint(4, 26))


async def together(site: CampaignSite, dice: Random, number: int) -> None:
    """Have pods come that are all on one node."""
    await _workload(site, dice, PodTemplate(f"together-{number}", "ReplicaSet", 3, together=True), dice.randint(2, 6))


async def tolerating(site: CampaignSite, dice: Random, number: int) -> None:
    """Have pods come that tolerate everything."""
    template = PodTemplate(f"tolerating-{number}", "ReplicaSet", 1, tolerates_all=True)
    await _workload(site, dice, template, dice.randint(1, 6))


async def volume(site: CampaignSite, dice: Random, number: int) -> None:
    """Have a pod with a local volume come and go."""
    node = dice.choice(sorted(site.cluster.servers))
    template = PodTemplate(f"volume-{number}", "StatefulSet", 1, volume_node=node)
    for made in site.volume_objects(template):
        site.api.put(made)
    found = site.cluster.workloads[template.app] = Workload(template, 0)
    for _ in range(4):
        await pause(dice, 5 * MINUTE, 40 * MINUTE)
        found.replicas = 1
        await pause(dice, 3 * MINUTE, 15 * MINUTE)
        found.replicas = 0


async def job(site: CampaignSite, dice: Random, number: int) -> None:
    """Have pods of Jobs come."""
    template = PodTemplate(f"job-{number}", "Job", dice.choice((2, 6, 12)))
    for _ in range(dice.randint(1, 4)):
        site.cluster.make(template, runs_s=dice.uniform(2 * MINUTE, 20 * MINUTE))


async def bare(site: CampaignSite, dice: Random, number: int) -> None:
    """Have a pod without a controller come."""
    site.cluster.make(PodTemplate(f"bare-{number}", "", 1), runs_s=dice.uniform(MINUTE, 15 * MINUTE))


async def by_hand(site: CampaignSite, dice: Random, number: int) -> None:
    """Make a pod that names its node, as `kubectl debug node/NODE` does; most often one that is on its way to sleep."""
    name = going(site, dice, *OUT_OF_SUPPLY)
    template = PodTemplate(f"hand-{number}", "", 0.1, tolerates_all=dice.random() < _TOLERATING)
    site.cluster.make(template, runs_s=dice.uniform(MINUTE, 10 * MINUTE), node=name)


async def at_the_switch(site: CampaignSite, dice: Random, number: int) -> None:
    """Make a pod by hand on a node within seconds after its power-off was requested."""
    name = await site.next_power_off()
    await pause(dice, 0.0, _AT_THE_SWITCH_S)
    template = PodTemplate(f"switch-{number}", "", 0.1, tolerates_all=dice.random() < _TOLERATING)
    site.cluster.make(template, runs_s=dice.uniform(MINUTE, 10 * MINUTE), node=name)
