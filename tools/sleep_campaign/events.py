"""The kinds of what happens to a site at random, and how often.

Each kind has dice and times of its own, so that a run without some kinds has the others as before.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tools.sleep_campaign import outages, people, workloads
from tools.sleep_campaign.choices import MINUTE
from tools.sleep_campaign.site import CampaignSite

#: Nodes that the mean times are for.
_USUAL_NODES: Final = 40
Act = Callable[[CampaignSite, Random, int], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class EventKind:
    """A kind of event: the mean minutes between two of them, and what one does."""

    every_min: float
    act: Act
    #: Whether it happens the more often the more nodes there are: the load is that of the size.
    of_pods: bool = False


KINDS: Final[Mapping[str, EventKind]] = {
    "burst": EventKind(12, workloads.burst, of_pods=True),
    "budget": EventKind(15, workloads.budget, of_pods=True),
    "apart": EventKind(25, workloads.apart, of_pods=True),
    "together": EventKind(30, workloads.together, of_pods=True),
    "tolerating": EventKind(20, workloads.tolerating, of_pods=True),
    "volume": EventKind(40, workloads.volume, of_pods=True),
    "job": EventKind(4, workloads.job, of_pods=True),
    "bare": EventKind(8, workloads.bare, of_pods=True),
    "by-hand": EventKind(3, workloads.by_hand),
    "cordon": EventKind(12, people.cordon),
    "delete-node": EventKind(30, people.delete_node),
    "strip-label": EventKind(25, people.strip_label),
    "strip-taint": EventKind(25, people.strip_taint),
    "strip-record": EventKind(25, people.strip_record),
    "way-back": EventKind(25, people.way_back),
    "push-button": EventKind(30, people.push_button),
    "delete-policy": EventKind(150, people.delete_policy),
    "observe": EventKind(150, people.observe),
    "maintain": EventKind(40, people.maintain),
    "delete-bmc": EventKind(60, people.delete_bmc),
    "uninstall": EventKind(240, people.uninstall),
    "operator-killed": EventKind(45, outages.operator_killed),
    "outofband-killed": EventKind(75, outages.outofband_killed),
    "api-away": EventKind(75, outages.api_away),
    "bmc-away": EventKind(12, outages.bmc_away),
    "extender-away": EventKind(30, outages.extender_away),
    "clock-step": EventKind(90, outages.clock_step),
}


async def happen(site: CampaignSite, seed: str, kinds: Mapping[str, EventKind], pace: float) -> None:
    """Have events of these kinds happen, those that are not of pods `pace` times as often as usual, until cancelled."""
    size = len(site.cluster.servers) / _USUAL_NODES
    async with asyncio.TaskGroup() as group:
        for name, kind in kinds.items():
            often = size if kind.of_pods else pace
            group.create_task(_repeat(group, site, Random(f"{seed} {name}"), kind, often), name=name)


async def _repeat(group: asyncio.TaskGroup, site: CampaignSite, dice: Random, kind: EventKind, pace: float) -> None:
    number = 0
    while True:
        await asyncio.sleep(dice.expovariate(pace / (kind.every_min * MINUTE)))
        number += 1
        group.create_task(kind.act(site, Random(dice.random()), number))
