"""The kinds of what happens to a site at random, and how often.

Each kind has dice and times of its own, so that a run without some kinds has the others as before.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from typing import Any, Final

from tools.sleep_campaign import outages, people, workloads
from tools.sleep_campaign.choices import MINUTE
from tools.sleep_campaign.site import CampaignSite

#: Nodes that the mean times are for.
_USUAL_NODES: Final = 40
Act = Callable[[CampaignSite, Random, int], Coroutine[Any, Any, None]]


class EventScope(Enum):
    """Conditions that decide how often an event happens."""

    #: The number of nodes, so that the load of each is the same.
    PODS = auto()
    #: The number of nodes and the pace.
    NODE = auto()
    #: The pace.
    SITE = auto()


@dataclass(frozen=True, slots=True)
class EventKind:
    """A kind of event: the mean minutes between two of them, and what one does."""

    every_min: float
    act: Act
    scope: EventScope


KINDS: Final[Mapping[str, EventKind]] = {
    "burst": EventKind(12, workloads.burst, EventScope.PODS),
    "budget": EventKind(15, workloads.budget, EventScope.PODS),
    "apart": EventKind(25, workloads.apart, EventScope.PODS),
    "together": EventKind(30, workloads.together, EventScope.PODS),
    "tolerating": EventKind(20, workloads.tolerating, EventScope.PODS),
    "volume": EventKind(40, workloads.volume, EventScope.PODS),
    "job": EventKind(4, workloads.job, EventScope.PODS),
    "bare": EventKind(8, workloads.bare, EventScope.PODS),
    "by-hand": EventKind(5, workloads.by_hand, EventScope.NODE),
    "at-the-switch": EventKind(8, workloads.at_the_switch, EventScope.NODE),
    "cordon": EventKind(12, people.cordon, EventScope.NODE),
    "delete-node": EventKind(30, people.delete_node, EventScope.NODE),
    "strip-label": EventKind(25, people.strip_label, EventScope.NODE),
    "strip-taint": EventKind(25, people.strip_taint, EventScope.NODE),
    "strip-record": EventKind(25, people.strip_record, EventScope.NODE),
    "way-back": EventKind(25, people.way_back, EventScope.NODE),
    "push-button": EventKind(30, people.push_button, EventScope.NODE),
    "delete-policy": EventKind(150, people.delete_policy, EventScope.SITE),
    "observe": EventKind(150, people.observe, EventScope.SITE),
    "maintain": EventKind(40, people.maintain, EventScope.NODE),
    "delete-bmc": EventKind(60, people.delete_bmc, EventScope.NODE),
    "uninstall": EventKind(240, people.uninstall, EventScope.SITE),
    "operator-killed": EventKind(45, outages.operator_killed, EventScope.SITE),
    "outofband-killed": EventKind(75, outages.outofband_killed, EventScope.SITE),
    "api-away": EventKind(75, outages.api_away, EventScope.SITE),
    "bmc-away": EventKind(12, outages.bmc_away, EventScope.NODE),
    "extender-away": EventKind(30, outages.extender_away, EventScope.SITE),
    "clock-step": EventKind(90, outages.clock_step, EventScope.SITE),
}


async def happen(site: CampaignSite, seed: str, kinds: Mapping[str, EventKind], pace: float) -> None:
    """Have events of these kinds happen, those that are not of pods `pace` times as often as usual, until cancelled."""
    size = len(site.cluster.servers) / _USUAL_NODES
    often = {EventScope.PODS: size, EventScope.NODE: size * pace, EventScope.SITE: pace}
    async with asyncio.TaskGroup() as group:
        for name, kind in kinds.items():
            dice, every_s = Random(f"{seed} {name}"), kind.every_min * MINUTE / often[kind.scope]
            group.create_task(_repeat(group, site, dice, kind.act, every_s), name=name)


async def _repeat(group: asyncio.TaskGroup, site: CampaignSite, dice: Random, act: Act, every_s: float) -> None:
    number = 0
    while True:
        await asyncio.sleep(dice.expovariate(1.0 / every_s))
        number += 1
        group.create_task(act(site, Random(dice.random()), number))
