"""The campaign of sleeping nodes: that it notices each fault, planted by hand in place of the services; short ones."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools.sleep_campaign.campaign import CampaignPlan, again, describe, run_campaign
from tools.sleep_campaign.events import KINDS
from tools.sleep_campaign.observer import BEYOND_BOOT_S, STARTS_S, UNNAMED_S
from tools.sleep_campaign.placing import PlacingNode, takes
from tools.sleep_campaign.pods import CampaignPod, PodTemplate
from tools.sleep_campaign.servers import ServerPhase, ServerTimes
from tools.sleep_campaign.site import CampaignSite, SiteSize
from tools.sleep_campaign.virtual_time import VirtualLoop

ROOT = Path(__file__).parents[2]
_SIZE = SiteSize(nodes=4, times=ServerTimes(boot_s=(100.0, 100.0), shutdown_s=(30.0, 30.0)))
_APP = PodTemplate("app", "ReplicaSet", 1.0)
_ASLEEP = {"metadata": {"labels": {"joulie.io/sleep-state": "asleep"}}}
#: Long enough for everything that is looked at.
_LONG_S = STARTS_S + UNNAMED_S + 600.0


class Double:
    """A site whose services are the test."""

    def __init__(self):
        self.site = CampaignSite("test", _SIZE)
        for service in self.site.services:
            service.since_s = 0.0
        self.cluster, self.servers = self.site.cluster, self.site.cluster.servers
        for server in self.servers.values():
            server.graceful = server._tells = False
        self.ticking = asyncio.get_running_loop().create_task(self.site.ticks())

    async def shut_down(self, name, *, label=True):
        """Put a node to sleep, by its BMC."""
        self.ask(name)
        await asyncio.sleep(60)
        assert self.servers[name].is_off
        if label:
            self.site.api.patch("Node", name, _ASLEEP)

    def ask(self, name):
        """Have a BMC take a request to shut down at once."""
        self.servers[name].note_asked(asyncio.get_running_loop().time())
        self.servers[name].reset("GracefulShutdown")

    def taint(self, name):
        taints = [{"key": "joulie.io/asleep", "effect": "NoSchedule"}]
        self.site.api.patch("Node", name, {"spec": {"taints": taints}})

    def cordon(self, *names):
        for name in names:
            self.site.api.patch("Node", name, {"spec": {"unschedulable": True}})

    def kinds(self):
        return [each.kind for each in self.site.observer.violations]


def play(scene):
    """Play a scene in virtual time, and return the kinds of what the observer found."""

    async def run():
        double = Double()
        async with double.site.api:
            try:
                await scene(double)
            finally:
                double.ticking.cancel()
                await asyncio.wait({double.ticking})
        return double

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(run())


# --- pods cut ---------------------------------------------------------------------------------------------------------


def test_a_pod_that_runs_when_power_goes_is_cut():
    async def scene(double):
        double.cluster.make(_APP, node="n01")
        await asyncio.sleep(10)
        await double.shut_down("n01")

    double = play(scene)
    assert double.kinds() == ["pod cut"]
    (found,) = double.site.observer.violations
    assert (found.node, found.what) == ("n01", "app-1 (ReplicaSet), bound by hand 10.000 s before the request")
    assert any("app-1 made on it by hand" in line for line in double.site.journal.about("n01", since_s=0.0))


def test_a_pod_that_comes_while_the_server_shuts_down_is_cut_as_its_bmc_says_on_until_then():
    async def scene(double):
        double.ask("n01")
        assert double.servers["n01"].power_state == "On"
        double.servers["n01"].reset("On")
        await asyncio.sleep(10)
        double.cluster.make(_APP, node="n01")
        await asyncio.sleep(30)
        assert double.servers["n01"].phase is ServerPhase.OFF

    double = play(scene)
    assert double.kinds() == ["pod cut"]
    assert "10.000 s after the request" in double.site.observer.violations[0].what


def test_pods_of_daemon_sets_and_pods_that_have_ended_are_not_cut():
    async def scene(double):
        ended = double.cluster.make(_APP, node="n01", runs_s=20)
        await asyncio.sleep(40)
        assert ended.finished
        assert [pod.is_of_node for pod in double.cluster.on("n01")] == [True]
        await double.shut_down("n01")

    assert play(scene).kinds() == []


@pytest.mark.parametrize("tainted", [True, False])
def test_a_pod_bound_after_the_last_look_is_counted_apart_only_if_it_came_past_the_taint(tainted):
    async def scene(double):
        if tainted:
            double.taint("n01")
        double.ask("n01")
        await asyncio.sleep(10)
        double.cluster.make(_APP, node="n01")
        await asyncio.sleep(50)

    double = play(scene)
    assert double.kinds() == ([] if tainted else ["pod cut"])
    assert double.site.observer.unended == ([10.0] if tainted else [])


@pytest.mark.parametrize("before", [True, False])
def test_a_pod_that_finds_no_taint_is_counted_apart_only_if_a_person_removed_it_after_the_last_look(before):
    async def remove(double):
        double.site.observer.taint_removed_at_s["n01"] = asyncio.get_running_loop().time()

    async def scene(double):
        if before:
            await remove(double)
            await asyncio.sleep(1)
        double.ask("n01")
        await asyncio.sleep(5)
        if not before:
            await remove(double)
        await asyncio.sleep(5)
        double.cluster.make(_APP, node="n01")
        await asyncio.sleep(50)

    double = play(scene)
    assert double.kinds() == (["pod cut"] if before else [])
    assert double.site.observer.untainted == ([] if before else [10.0])


def test_a_pod_bound_before_the_last_look_is_cut_whatever_taint_it_came_past():
    async def scene(double):
        double.taint("n01")
        await asyncio.sleep(3)
        double.cluster.make(_APP, node="n01")
        await asyncio.sleep(0.1)
        await double.shut_down("n01")

    assert play(scene).kinds() == ["pod cut"]


def test_a_kubelet_that_knows_of_the_shutdown_ends_its_pods_and_refuses_others():
    async def scene(double):
        double.servers["n01"].graceful = True
        double.taint("n01")
        running = double.cluster.make(_APP, node="n01")
        await asyncio.sleep(5)
        double.ask("n01")
        await asyncio.sleep(10)
        assert running.finished
        late = double.cluster.make(_APP, node="n01")
        await asyncio.sleep(5)
        assert late.finished
        assert double.site.api.get("Pod", late.name, "default")["status"]["phase"] == "Failed"

    # The first one ran when the shutdown was requested, and its kubelet is no excuse.
    assert play(scene).kinds() == ["pod cut"]


# --- servers that are off ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("label", "kinds"), [(False, ["unknown off"]), (True, [])])
def test_a_server_that_is_off_and_not_listed_is_unknown(label, kinds):
    async def scene(double):
        await double.shut_down("n01", label=label)
        await asyncio.sleep(_LONG_S)

    assert play(scene).kinds() == kinds


def test_a_server_whose_node_is_deleted_is_unknown_unless_it_is_woken():
    async def scene(double):
        for name in ("n01", "n02"):
            await double.shut_down(name)
            double.site.api.remove("Node", name)
        double.site.api.patch("NodeBMC", "n02", {"spec": {"desiredPower": "On"}})
        await asyncio.sleep(_LONG_S)

    assert [(each.kind, each.node) for each in play(scene).site.observer.violations] == [("unknown off", "n01")]


def test_a_node_in_quarantine_is_found_once_each_time():
    async def scene(double):
        for state in ("quarantined", "waking", "quarantined"):
            double.site.api.patch("Node", "n01", {"metadata": {"labels": {"joulie.io/sleep-state": state}}})
            await asyncio.sleep(60)

    assert play(scene).kinds() == ["quarantined", "quarantined"]


def test_an_uninstall_that_leaves_a_server_off_is_found():
    async def scene(double):
        await double.shut_down("n01", label=False)
        await double.shut_down("n02")
        double.site.observer.uninstalled({"n02"})

    assert [(each.kind, each.node) for each in play(scene).site.observer.violations] == [("unknown off", "n01")]


def test_nothing_is_expected_of_services_that_do_not_run():
    async def scene(double):
        double.site.operator.since_s = None
        await double.shut_down("n01", label=False)
        await asyncio.sleep(_LONG_S)

    assert play(scene).kinds() == []


# --- pods that wait ---------------------------------------------------------------------------------------------------


async def _pending(double, template=_APP):
    """Have a pod wait that only n01 takes, which sleeps."""
    await asyncio.sleep(STARTS_S)
    await double.shut_down("n01")
    double.cordon("n00", "n02", "n03")
    return double.cluster.make(template)


def test_a_pod_that_a_sleeping_node_fits_waits_no_longer_than_a_boot_and_a_minute():
    async def scene(double):
        pod = await _pending(double)
        await asyncio.sleep(100 + BEYOND_BOOT_S - 10)
        assert double.kinds() == []
        await asyncio.sleep(60)
        assert not pod.node

    double = play(scene)
    assert double.kinds() == ["stuck"]
    assert "fits n01" in double.site.observer.violations[0].what


def test_a_pod_whose_node_is_woken_is_not_stuck():
    async def scene(double):
        pod = await _pending(double)
        await asyncio.sleep(30)
        double.servers["n01"].reset("On")
        await asyncio.sleep(110)
        double.site.api.patch("Node", "n01", {"metadata": {"labels": {"joulie.io/sleep-state": None}}})
        await asyncio.sleep(_LONG_S)
        assert pod.boot

    assert play(scene).kinds() == []


def test_a_pod_that_no_sleeping_node_fits_is_not_stuck():
    async def scene(double):
        await _pending(double, PodTemplate("large", "ReplicaSet", 99.0))
        await asyncio.sleep(_LONG_S)

    assert play(scene).kinds() == []


def test_a_pod_that_is_bound_to_a_sleeping_node_is_stuck():
    async def scene(double):
        await asyncio.sleep(STARTS_S)
        await double.shut_down("n01")
        double.cluster.make(PodTemplate("hand", "", 0.1, tolerates_all=True), node="n01")
        await asyncio.sleep(_LONG_S)

    double = play(scene)
    assert double.kinds() == ["stuck"]
    assert "bound to n01" in double.site.observer.violations[0].what


@pytest.mark.parametrize("excuse", ["cordoned", "maintained", "no policy", "BMC away"])
def test_a_node_that_must_not_be_woken_or_cannot_be_is_not_waited_for(excuse):
    async def scene(double):
        if excuse == "no policy":
            double.site.observer.policy_since_s = None
        await _pending(double)
        if excuse == "cordoned":
            double.cordon("n01")
        if excuse == "maintained":
            double.site.observer.taken.add("n01")
        if excuse == "BMC away":
            double.site.observer.bmc_since_s["n01"] = float("inf")
        await asyncio.sleep(_LONG_S)

    assert play(scene).kinds() == []


# --- what the site is made of -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "there", "fits"),
    [
        (PodTemplate("a", "", 4.0), [], True),
        (PodTemplate("a", "", 17.0), [], False),
        (PodTemplate("a", "", 4.0, pool="other"), [], False),
        (PodTemplate("a", "", 4.0, volume_node="n2"), [], False),
        (PodTemplate("a", "", 4.0, apart=True), [PodTemplate("a", "", 1.0)], False),
        (PodTemplate("a", "", 4.0, apart=True), [PodTemplate("b", "", 1.0)], True),
        (PodTemplate("a", "", 4.0), [PodTemplate("b", "", 13.0)], False),
    ],
)
def test_kube_scheduler_places_by_room_pool_volume_and_affinity(template, there, fits):
    node = PlacingNode("n1", {"pool": "sleepy"}, (), unschedulable=False, cpu=16.0)
    pods = [CampaignPod(f"p{number}", each, 0.0, node="n1") for number, each in enumerate(there)]
    assert takes(CampaignPod("p", template, 0.0), node, pods, pods) is fits


def test_pods_that_go_together_follow_the_first_of_them():
    template = PodTemplate("a", "", 1.0, together=True)
    node = PlacingNode("n1", {}, (), unschedulable=False, cpu=16.0)
    elsewhere = [CampaignPod("p0", template, 0.0, node="n2")]
    assert takes(CampaignPod("p", template, 0.0), node, [], [])
    assert not takes(CampaignPod("p", template, 0.0), node, [], elsewhere)
    assert takes(CampaignPod("p", template, 0.0), node, elsewhere, elsewhere)


@pytest.mark.parametrize(("tolerates", "fits"), [(False, False), (True, True)])
def test_only_pods_that_tolerate_everything_go_to_nodes_that_keep_pods_away(tolerates, fits):
    pod = CampaignPod("p", PodTemplate("a", "", 1.0, tolerates_all=tolerates), 0.0)
    for node in (
        PlacingNode("n1", {}, (("joulie.io/asleep", "NoSchedule"),), unschedulable=False, cpu=16.0),
        PlacingNode("n1", {}, (), unschedulable=True, cpu=16.0),
    ):
        assert takes(pod, node, [], []) is fits


def test_a_budget_refuses_the_eviction_that_would_leave_too_few_pods():
    async def scene(double):
        template = PodTemplate("budget", "ReplicaSet", 1.0, min_available=1)
        first, second = (double.cluster.make(template, node=name) for name in ("n00", "n01"))
        await asyncio.sleep(10)
        assert double.site.api.evict("default", first.name) == 201
        assert double.site.api.evict("default", second.name) == 429
        assert double.site.api.evict("default", "absent") == 404

    play(scene)


def test_a_deleted_node_is_registered_again_when_its_server_boots_and_not_before():
    async def scene(double):
        await double.shut_down("n01")
        double.site.api.remove("Node", "n01")
        await asyncio.sleep(_LONG_S)
        assert double.cluster.node("n01") is None
        double.servers["n01"].reset("On")
        await asyncio.sleep(120)
        node = double.site.api.get("Node", "n01")
        assert node["status"]["nodeInfo"]["bootID"] == "n01-boot-2"

    play(scene)


@pytest.mark.parametrize(
    ("kinds", "options"),
    [
        (frozenset(KINDS), ""),
        (frozenset(KINDS) - {"burst", "way-back"}, " --without burst --without way-back"),
        (frozenset({"job", "by-hand"}), " --only by-hand --only job"),
    ],
)
def test_the_command_that_repeats_a_campaign_names_its_kinds_of_events(kinds, options):
    plan = CampaignPlan(seed=3, hours=1.5, nodes=8, pace=2.0, kinds=kinds)
    assert again(plan) == f"just sleep-campaign --seed 3 --hours 1.5 --nodes 8 --pace 2{options}"


# --- with the real services -------------------------------------------------------------------------------------------


def test_without_events_idle_nodes_sleep_and_nothing_is_wrong():
    result = run_campaign(CampaignPlan(hours=0.5, nodes=8, kinds=frozenset()))
    assert result.violations == [], describe(result)
    assert (result.offs, result.defects) == (4, {})


def figures_of(*arguments, timeout_s):
    """Run campaigns as `just sleep-campaign` does, and return the power-offs, the boots and the violations of each."""
    command = [sys.executable, "-m", "tools.sleep_campaign.run", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False)
    report = done.stdout[-20_000:] + done.stderr[-2_000:]
    assert done.returncode == 0, report
    assert "DEFECT" not in report
    found = re.findall(r"^(\d+) power-offs, (\d+) boots", done.stdout, re.MULTILINE)
    assert done.stdout.count("pod cut 0, unknown off 0, stuck 0, quarantined 0") == len(found), report
    return [(int(offs), int(boots)) for offs, boots in found]


@pytest.mark.timeout(300)
def test_short_campaigns_with_everything_that_happens_find_nothing():
    found = figures_of("--seed=1", "--seeds=2", "--hours=1.25", "--nodes=16", "--pace=4", timeout_s=290)
    assert len(found) == 2
    assert all(offs >= 8 and boots >= 4 for offs, boots in found), found


@pytest.mark.soak
def test_a_day_of_40_nodes_finds_nothing():
    ((offs, boots),) = figures_of("--hours=24", timeout_s=890)
    assert offs > 100
    assert boots > 100
