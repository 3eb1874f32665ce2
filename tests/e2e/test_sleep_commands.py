"""Nodes that sleep, for people: the commands of docs/sleep.md, `kubectl joulie`, and conditions of policies."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.doc_commands import ON_SLEEPING_NODES
from tests.e2e.plugin import Plugin
from tests.e2e.shell import find_kubectl, make_shell
from tests.e2e.sleep_site import NODE, OTHERS, SleepSite, end, sleep_site
from tests.e2e.waiting import eventually

from joulie_api.resources import NODE_BMCS
from joulie_devcluster.fixtures import Starter
from joulie_sim.bmc.resources import SYSTEM
from joulie_sim.stack.service import Service

pytestmark = pytest.mark.e2e


@pytest.fixture
async def site(start_cluster: Starter, tmp_path: Path):
    async with sleep_site(start_cluster, tmp_path / "bmc") as found:
        yield found


@pytest.mark.timeout(500)
async def test_the_commands_of_the_page_put_a_node_to_sleep_and_get_it_back(site: SleepSite, tmp_path: Path) -> None:
    server, cluster = site.machine.server, site.stack.cluster
    address = site.machine.bmc_address
    names = {
        "NODE": NODE,
        "POLICY": "night",
        "CA": str(site.machine.bmc_ca),
        "USER": "root:calvin",
        "ADDRESS/redfish/v1/Systems/SYSTEM": f"{address}{SYSTEM}",
        "ADDRESS": address,
    }
    shell = make_shell(tmp_path, {"kubectl": find_kubectl()}, cluster.kubeconfig, names=names)
    sections = [section for _, section in ON_SLEEPING_NODES]

    async def run(section: str) -> str:
        sections.remove(section)
        return await shell.section("docs/sleep.md", section)

    await run("Prove the wake path")
    assert server.resets == ["GracefulShutdown", "On"]
    await site.put_policy(mode="Recommend")
    await eventually(lambda: _recommends(site), within_s=20)
    assert "night" in await run("Try it: nothing is powered off")
    assert "patched" in await run("Which pods are moved")
    assert server.resets == ["GracefulShutdown", "On"]
    await run("Let it act")
    await site.reaches("asleep")
    await _is_shown(site, Plugin(cluster.kubeconfig))
    used = await run("Bounds of power cycles and boots")
    assert '"limit":4,"total":1,"used":1' in used
    assert '"withoutRack":1' in used

    # By the plugin: `--wait` ends once the node is awake. Then nothing keeps it awake any more.
    await run("Wake nodes")
    assert server.resets.count("On") == 2
    await site.reaches("asleep")
    _lists_as_off(await run("Servers that Joulie switched off"))
    assert ("in maintenance" in await run("Work on a server"), await site.state()) == (True, "asleep")

    await end(site.stack.operator)
    await run("One node while the operator does not run")
    await eventually(lambda: _is_back(site), within_s=20)
    await site.stack.operator.start()
    await site.reaches("asleep")

    await run("Stop it at once")
    await site.reaches("awake")
    await site.change_policy(mode="Act")
    await eventually(lambda: _refuses(site, "power_off_never"), within_s=20)
    await site.view.client.merge_patch(NODE_BMCS, NODE, {"spec": {"powerOff": "Allowed"}})
    await site.reaches("asleep")

    await _drill(site, run)
    resets, requests = list(server.resets), len(site.machine.bmc.requests)
    await site.stack.services[Service.OUTOFBAND].start()
    await site.stack.operator.start()
    await eventually(lambda: _acts_no_more(site, requests), within_s=40)
    assert (server.resets, server.power_state) == (resets, "On")
    assert sections == []


async def _drill(site: SleepSite, run: Callable[[str], Awaitable[str]]) -> None:
    """End both services, and get the node back by hand; print how long that takes."""
    for service in (site.stack.operator, site.stack.services[Service.OUTOFBAND]):
        await end(service)
    assert f"redfish {site.machine.bmc_address} Off" in await run("Order of an emergency")
    began_s = time.monotonic()
    await run("Power on by hand")
    await eventually(lambda: _is_on(site), within_s=20)
    on_s = time.monotonic()
    await run("Everything back without Joulie")
    await eventually(lambda: _is_back(site), within_s=20)
    print(f"drill: on after {on_s - began_s:.1f} s, takes pods after {time.monotonic() - on_s:.1f} s more")


def _lists_as_off(output: str) -> None:
    listed = [line.split() for line in output.splitlines()]
    assert [line[:2] for line in listed if line[:1] == [NODE]] == [[NODE, "Off"]]


async def _recommends(site: SleepSite) -> None:
    assert (await site.status()).get("recommendation", {}).get("nodes") == [NODE]


async def _refuses(site: SleepSite, reason: str) -> None:
    assert (await site.status()).get("refusals") == [{"reason": reason, "nodes": 1}]


async def _is_on(site: SleepSite) -> None:
    assert site.machine.server.power_state == "On"


async def _is_back(site: SleepSite) -> None:
    assert await site.marks() == (False, False, False, True)


async def _acts_no_more(site: SleepSite, requests: int) -> None:
    assert (await site.condition("Acting") or ("",))[0] == "False"
    assert len(site.machine.bmc.requests) > requests + 10, "the service has read the BMC more than once"


async def _is_shown(site: SleepSite, plugin: Plugin) -> None:
    """Ask for a node that sleeps, and for a pod that waits for something else."""
    nodes = {each["name"]: each["sleepState"] for each in (await plugin.data("nodes"))["nodes"]}
    assert nodes == {NODE: "asleep", **dict.fromkeys(OTHERS, "awake")}
    assert (await plugin.data("status"))["nodes"]["bySleepState"] == {"asleep": 1}
    report = await plugin.data("sleep", "--policy", "night")
    (row,) = report["nodes"]
    assert (row["name"], row["state"], row["policy"], row["reason"]) == (NODE, "asleep", "night", "off confirmed")
    assert row["powerCycles"] == {"today": 1, "total": 1}
    assert row["source"] == "measured"
    assert report["sums"]["notDrawnWatts"] == {"measured": row["notDrawnWatts"], "modelled": 0, "unknownNodes": 0}
    assert row["notDrawnWatts"] > 0
    url = ("--extender-url", site.stack.extender_url)
    text = " ".join((await plugin.run("explain", "node", NODE, *url)).split())
    assert "off confirmed" in text
    assert "Standard pods refused, SleepingNode: node is asleep" in text
    assert f"kubectl joulie wake {NODE}" in text
    (pod,) = await site.view.create_pods(1, "huge", cpu="10000")
    where = ("-n", site.view.namespace)
    assert "refused, SleepingNode: 1 node" in await plugin.run("explain", "pod", pod, *where, *url)
    text = " ".join((await plugin.run("why-pending", pod, *where)).split())
    assert "The operator wakes nodes for pods that kube-scheduler has found no node for" in text
    await site.view.delete_pods([pod])
    assert await site.state() == "asleep"


async def test_what_only_the_controller_sees_is_said_in_conditions(site: SleepSite) -> None:
    window = {"days": ["Mon"], "start": "07:30", "end": "19:00", "timeZone": "Europe/Roma", "minAwake": 1}
    await site.put_policy("zoned", nodeSelector={"kubernetes.io/hostname": OTHERS[0]}, schedules=[window])
    await site.put_policy("night")
    await site.put_policy("overlapping")
    await site.put_policy("nowhere", nodeSelector={"pool": "nix"})

    async def said(name: str, kind: str, status: str, *parts: str) -> None:
        found = await site.condition(kind, name)
        assert found is not None
        assert found[0] == status
        assert all(part in found[1] for part in parts), found

    for name, kind, status, *parts in (
        ("zoned", "Accepted", "False", "schedules[0].timeZone: 'Europe/Roma'", "write a name such as Europe/Rome"),
        ("overlapping", "Overlapping", "True", "belong 1 to night", "change one of the selectors"),
        ("nowhere", "Accepted", "True", "spec.nodeSelector pool=nix matches no managed node", "change it"),
    ):
        await eventually(lambda: said(name, kind, status, *parts), within_s=20)  # noqa: B023 - awaited here
    # The unknown power of an unproved wake path is a refusal, by its reason.
    await eventually(lambda: _refuses(site, "wake_unproven"), within_s=20)
