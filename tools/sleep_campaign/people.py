"""Acts of people on nodes and policies at random, by mistake or with a reason."""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from tools.sleep_campaign.choices import MINUTE, going, pause
from tools.sleep_campaign.journal import SITE
from tools.sleep_campaign.site import POLICY, CampaignSite
from tools.sleep_campaign.uninstalling import awake_by_hook

from joulie_core import labels
from joulie_core.kinds.node_bmc import PowerState
from joulie_core.sleep_state import SleepState

_MAINTENANCE: Final = "joulie.io/maintenance"
_WAIT_S: Final = 10.0


def _patch(site: CampaignSite, kind: str, name: str, change: Mapping[str, Any], what: str) -> None:
    if site.api.version(kind, name):
        site.journal.note(name, f"person: {what}")
        site.api.patch(kind, name, change)


async def cordon(site: CampaignSite, dice: Random, _number: int) -> None:
    """Cordon a node for some time."""
    name = going(site, dice, SleepState.ASLEEP)
    _patch(site, "Node", name, {"spec": {"unschedulable": True}}, "cordons")
    await pause(dice, 5 * MINUTE, 40 * MINUTE)
    _patch(site, "Node", name, {"spec": {"unschedulable": None}}, "uncordons")


async def delete_node(site: CampaignSite, dice: Random, _number: int) -> None:
    """Delete a Node; who deletes its NodeBMC as well takes the server from Joulie."""
    name = going(site, dice, SleepState.POWERING_OFF, SleepState.ASLEEP, SleepState.WAKING)
    if site.api.version("Node", name) and site.api.version("NodeBMC", name):
        site.journal.note(name, "person: deletes the Node")
        site.api.remove("Node", name)


async def strip_label(site: CampaignSite, dice: Random, _number: int) -> None:
    """Remove the label of a node that sleeps."""
    name = going(site, dice, SleepState.POWERING_OFF, SleepState.ASLEEP)
    _patch(site, "Node", name, {"metadata": {"labels": {labels.SLEEP_STATE: None}}}, "removes the label")


async def strip_taint(site: CampaignSite, dice: Random, _number: int) -> None:
    """Remove its taint."""
    _remove_taint(site, going(site, dice, SleepState.DRAINING, SleepState.POWERING_OFF, SleepState.ASLEEP))


async def strip_record(site: CampaignSite, dice: Random, _number: int) -> None:
    """Remove its record, or write another."""
    name = going(site, dice, SleepState.POWERING_OFF, SleepState.ASLEEP)
    value = dice.choice((None, "", "{}", '{"state":"Awake","since":0,"reason":"initial"}', "\u0000"))
    _patch(site, "Node", name, {"metadata": {"annotations": {labels.SLEEP_RECORD: value}}}, f"writes record {value!r}")


async def way_back(site: CampaignSite, dice: Random, _number: int) -> None:
    """Follow docs/sleep.md, "One node while the operator does not run", while it runs."""
    name = going(site, dice, SleepState.POWERING_OFF, SleepState.ASLEEP)
    await _reads(site, name, PowerState.OFF, 15 * MINUTE)
    _patch(site, "NodeBMC", name, {"spec": {"desiredPower": "On"}}, "requests power On")
    await _reads(site, name, PowerState.ON, 30 * MINUTE)
    _remove_taint(site, name)
    _patch(site, "Node", name, {"metadata": {"annotations": {labels.SLEEP_RECORD: None}}}, "removes the record")
    _patch(site, "Node", name, {"metadata": {"labels": {labels.SLEEP_STATE: None}}}, "removes the label")
    _patch(site, "NodeBMC", name, {"spec": {"desiredPower": None}}, "withdraws the request")


async def _reads(site: CampaignSite, name: str, state: PowerState, patience_s: float) -> None:
    """Wait as `kubectl wait` does, which some people do not take notice of where it gives up."""
    for _ in range(int(patience_s / _WAIT_S)):
        bmc = site.api.get("NodeBMC", name)
        if bmc is not None and bmc.get("status", {}).get("powerState") == state:
            return
        await asyncio.sleep(_WAIT_S)


def _remove_taint(site: CampaignSite, name: str) -> None:
    node = site.api.get("Node", name)
    if node is not None:
        site.observer.taint_removed_at_s[name] = asyncio.get_running_loop().time()
        kept = [each for each in node["spec"].get("taints") or () if each["key"] != labels.ASLEEP_TAINT]
        _patch(site, "Node", name, {"spec": {"taints": kept}}, "removes the taint")


async def push_button(site: CampaignSite, dice: Random, _number: int) -> None:
    """Power a server on at its front."""
    name = going(site, dice, SleepState.ASLEEP)
    site.journal.note(name, "person: pushes the power button")
    site.cluster.servers[name].push_button()


async def delete_policy(site: CampaignSite, dice: Random, _number: int) -> None:
    """Delete the policy for some time."""
    if site.observer.policy_since_s is None:
        return
    site.observer.policy_since_s = None
    site.journal.note(SITE, "person: deletes the policy")
    site.api.remove("NodeSleepPolicy", POLICY)
    await pause(dice, 2 * MINUTE, 20 * MINUTE)
    _policy_back(site)


async def observe(site: CampaignSite, dice: Random, _number: int) -> None:
    """Have the policy only observe for some time."""
    if site.observer.policy_since_s is None:
        return
    site.observer.policy_since_s = None
    site.journal.note(SITE, "person: sets mode Observe")
    site.put_policy(mode="Observe")
    await pause(dice, 2 * MINUTE, 20 * MINUTE)
    _policy_back(site)


def _policy_back(site: CampaignSite) -> None:
    site.journal.note(SITE, "person: writes the policy")
    site.put_policy()
    site.observer.policy_since_s = asyncio.get_running_loop().time()


async def maintain(site: CampaignSite, dice: Random, _number: int) -> None:
    """Work on a server for some time: its power is left alone."""
    name = going(site, dice, SleepState.ASLEEP, SleepState.WAKING)
    if name in site.observer.taken:
        return
    site.observer.taken.add(name)
    _annotate(site, name, _MAINTENANCE, "a fan is replaced; J. Doe")
    await pause(dice, 5 * MINUTE, 40 * MINUTE)
    _annotate(site, name, _MAINTENANCE, None)
    site.observer.taken.discard(name)


async def delete_bmc(site: CampaignSite, dice: Random, _number: int) -> None:
    """Delete a NodeBMC, and write it again; who deletes its Node as well takes the server from Joulie."""
    name = going(site, dice, SleepState.ASLEEP)
    if not (site.api.version("NodeBMC", name) and site.api.version("Node", name)):
        return
    site.journal.note(name, "person: deletes the NodeBMC")
    site.api.remove("NodeBMC", name)
    await pause(dice, MINUTE, 20 * MINUTE)
    site.journal.note(name, "person: writes the NodeBMC")
    site.put_bmc(name)


async def uninstall(site: CampaignSite, dice: Random, _number: int) -> None:
    """Uninstall Joulie as the chart does, whose hook wakes all nodes first, and install it again some time later."""
    if site.observer.policy_since_s is None or not (site.operator.runs and site.outofband.runs):
        return
    site.observer.policy_since_s = None
    site.journal.note(SITE, "person: uninstalls")
    left_off = await awake_by_hook(site.api, site.operator.wall)
    if left_off is not None:
        for service in site.services:
            await service.kill()
        site.observer.uninstalled(left_off)
        await pause(dice, MINUTE, 10 * MINUTE)
    else:
        site.journal.note(SITE, "person: the uninstall has failed")
    for name in sorted(site.cluster.servers):
        _patch(site, "Node", name, {"metadata": {"annotations": {labels.AWAKE_UNTIL: None}}}, "installs")
    for service in site.services:
        service.start()
    _policy_back(site)


def _annotate(site: CampaignSite, name: str, key: str, value: str | None) -> None:
    _patch(site, "Node", name, {"metadata": {"annotations": {key: value}}}, f"annotates {key}: {value}")
