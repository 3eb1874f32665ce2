"""Common parts of events: pauses, and the choice of nodes on which something is going on."""

import asyncio
from random import Random
from typing import Final

from tools.sleep_campaign.site import CampaignSite

from joulie_core import labels
from joulie_core.sleep_state import SleepState, labels_of

MINUTE: Final = 60.0
#: Share of events that are about a node in the state that they are most interesting in.
_AIMED: Final = 0.8


async def pause(dice: Random, from_s: float, to_s: float) -> None:
    """Wait for a time between two, in seconds."""
    await asyncio.sleep(dice.uniform(from_s, to_s))


def going(site: CampaignSite, dice: Random, *states: SleepState) -> str:
    """Return a node in one of these states; any node where none is, and sometimes in any case."""
    names = sorted(site.cluster.servers)
    wanted = labels_of(states)
    found = [
        name
        for name in names
        if (node := site.cluster.node(name)) is not None and node.labels.get(labels.SLEEP_STATE) in wanted
    ]
    return dice.choice(found if found and dice.random() < _AIMED else names)
