"""The live page in Debian's headless Chromium: what it shows, its keys, its names for screen readers, its speed."""

import time

import pytest
from services.operator.tests.ui.invented import InventedCluster, devices, fill
from tests.live_page.browser import CHROMIUM, BrowserError, browser

from joulie_core.kinds import Condition, ConditionStatus, PowerDomainSpec, PowerDomainStatus
from joulie_core.kinds.power_domain import DomainLostControl, DrawnPower, OversubscriptionStatus
from joulie_core.savings import Lever, LeverRate
from joulie_core.savings.rates import UNKNOWN_RATE, EstimateRange
from joulie_operator.power_domains.metrics import DomainState
from joulie_operator.ui.domains import bars_of

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's package chromium")

MARKUP = "<img src=x onerror=alert(1)>"
CELLS = "document.querySelectorAll('[role=gridcell]')"
FOCUSED = "document.activeElement.getAttribute('aria-label')?.split(',')[0] ?? document.activeElement.id"
CONTRASTS = """(() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if ((rgb(colour)[3] ?? 1) > 0) return rgb(colour);
    }
    return [255, 255, 255];
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (texts.nextNode()) {
    const { parentElement: parent, data } = texts.currentNode;
    if (!data.trim() || !parent.checkVisibility() || parent.closest("noscript")) continue;
    const [one, other] = [light(rgb(getComputedStyle(parent).color)), light(behind(parent))].sort((a, b) => b - a);
    found.push([(one + 0.05) / (other + 0.05), data.trim(), parent.className]);
  }
  return found;
})()"""


@pytest.fixture
async def open_tab():
    async with browser() as found:
        yield found


async def opened(open_tab, url, count):
    tab = await open_tab(f"{url}/ui/")
    await tab.until(f"{CELLS}.length === {count}", timeout_s=60)
    await tab.until(f"document.querySelector('#totals tr:last-child td')?.textContent == {count}")
    return tab


async def test_the_page_shows_nodes_totals_demand_and_transitions_as_they_come(open_tab):
    world = InventedCluster(wall=time.time)
    world.put_node("eco-1", rack="r1")
    world.put_node("fast-1", rack="r1")
    world.put_node("new-1", rack="r2")
    world.put_twin("eco-1", "eco", watts=210, capped_watts=420)
    world.put_twin("fast-1", "performance", watts=770, capped_watts=700)
    world.put_target("fast-1", "performance")
    world.put_pod("a", "fast-1", performance=True)
    world.put_pod("b", performance=True)
    async with world.served() as url:
        tab = await opened(open_tab, url, 3)
        names = await tab.run(f"[...{CELLS}].map((each) => each.getAttribute('aria-label'))")
        assert names == [
            "eco-1, eco, 210 W of 420 W, 50% of its cap",
            "fast-1, performance, 770 W of 700 W, 110% of its cap",
            "new-1, class unknown, power unknown",
        ]
        rows = await tab.run(
            "[...document.querySelectorAll('#totals tr')]"
            ".map((row) => [...row.children].map((each) => each.textContent))"
        )
        assert rows == [
            ["performance", "1", "770 W", "700 W", "110%", "0 nodes", "1", "0"],
            ["eco", "1", "210 W", "420 W", "50%", "0 nodes", "0", "0"],
            ["draining", "0", "0 W", "0 W", "-", "0 nodes", "0", "0"],
            ["unknown", "1", "unknown", "unknown", "-", "1 node", "0", "0"],
            ["all", "3", "980 W", "1120 W", "88%", "1 node", "1", "0"],
        ]
        assert "2 active performance pods, 1 of them waiting" in await tab.run("demand.textContent")
        world.put_target("fast-1", "draining")
        world.put_twin("fast-1", "draining", watts=600, capped_watts=700)
        await tab.until("document.getElementById('history').textContent.includes('fast-1: performance to draining')")
        await tab.until(f"{CELLS}[1].getAttribute('aria-label').startsWith('fast-1, draining, 600 W')")
        world.remove_node("eco-1")
        await tab.until(f"{CELLS}.length === 2")


async def test_a_node_that_sleeps_has_a_badge_and_is_not_of_unknown_power(open_tab):
    world = InventedCluster(wall=time.time)
    for number, state in enumerate(["", "draining", "asleep", "waking", "quarantined"]):
        world.put_node(f"n{number}", sleep_state=state)
        world.put_twin(f"n{number}", "eco", watts=200, capped_watts=400)
    async with world.served() as url:
        tab = await opened(open_tab, url, 5)
        badges = await tab.run(f"[...{CELLS}].map((each) => each.firstChild.textContent)")
        assert badges == ["E", "z", "Z", "W", "Q"]
        names = await tab.run(f"[...{CELLS}].map((each) => each.getAttribute('aria-label'))")
        assert names[1:4] == [
            "n1, eco, 200 W of 400 W, 50% of its cap, goes to sleep: pods are being evicted",
            "n2, asleep: powered off",
            "n3, eco, 200 W of 400 W, 50% of its cap, waking: takes no pods yet",
        ]
        rows = await tab.run(
            "[...document.querySelectorAll('#totals tr')]"
            ".map((row) => [...row.children].map((each) => each.textContent))"
        )
        assert rows[1] == ["eco", "4", "800 W", "1600 W", "50%", "0 nodes", "0", "0"]
        assert rows[4:] == [
            ["asleep", "1", "-", "-", "-", "0 nodes", "0", "0"],
            ["all", "5", "800 W", "1600 W", "50%", "0 nodes", "0", "0"],
        ]
        await tab.run(f"{CELLS}[2].click()")
        await tab.until("document.getElementById('details-list').textContent.includes('none: powered off')")
        world.put_node("n2")
        await tab.until(f"{CELLS}[2].firstChild.textContent === 'E'")
        await tab.until("document.querySelectorAll('#totals tr').length === 5")


async def test_the_saving_of_the_moment_is_shown_with_its_interval_and_what_is_not_known(open_tab):
    rates = {
        Lever.SLEEP: LeverRate(EstimateRange(900.2, 11_000.0, 12_100.0), unknown_share=0.25),
        Lever.CAPS: UNKNOWN_RATE,
        Lever.SCORE: LeverRate(EstimateRange(-10.0, 120.4, 300.0)),
    }
    world = InventedCluster(wall=time.time, savings=lambda: rates)
    world.put_node("one", rack="r1")
    async with world.served() as url:
        tab = await opened(open_tab, url, 1)
        shown = "document.getElementById('savings')"
        assert await tab.run(f"{shown}.textContent") == (
            "Estimated saving: 11.1 kW, from 890 W to 12.4 kW: "
            "sleep 11.0 kW, not known of 25%; caps not known; score 120 W."
        )
        del rates[Lever.SLEEP], rates[Lever.SCORE]
        await tab.until(f"{shown}.textContent === 'Estimated saving: not known.'")


DOMAIN_ROWS = """[...document.querySelectorAll('#domains tbody tr')]
  .map((row) => [...row.children].map((each) => each.textContent))"""


def domain(parent=None, *, problem="", **status):
    kind = Condition(
        type="Held", status=ConditionStatus.FALSE if problem else ConditionStatus.TRUE, reason=problem or "x"
    )
    enforced = Condition(type="Enforced", status=ConditionStatus.TRUE)
    spec = PowerDomainSpec(limit_watts=1_000, parent=parent, on_lost_control=DomainLostControl.RELEASE)
    return DomainState(spec, PowerDomainStatus(conditions=(kind, enforced), **status))


async def test_power_domains_are_a_tree_of_bars_in_which_unknown_is_unknown(open_tab):
    states = {
        "feed": domain(in_force_watts=900, allocated_watts=800, drawn=DrawnPower(measured_watts=500, unknown_nodes=1)),
        MARKUP: domain("feed", problem="PowerUnknown"),
    }
    world = InventedCluster(wall=time.time, domains=lambda: bars_of(states))
    fill(world, 40)
    async with world.served() as url:
        tab = await opened(open_tab, url, 40)
        await tab.until("document.querySelectorAll('#domains tbody tr').length === 2")
        assert await tab.run(DOMAIN_ROWS) == [
            ["feed", "", "500 W, 1 node unknown", "900 W", "800 W", "1000 W", "held"],
            [MARKUP, "", "unknown", "unknown", "unknown", "1000 W", "PowerUnknown: "],
        ]
        width = "(name) => document.querySelector(`#domains tbody .bar .${name}`).style.width"
        widths = await tab.run(f"['drawn', 'in-force', 'allocated', 'usable'].map({width})")
        assert widths == ["50%", "90%", "80%", "100%"]
        assert await tab.run("document.querySelectorAll('#domains tbody .bar')[1].className") == "bar not-known"
        assert (
            await tab.run("document.querySelectorAll('#domains tbody .bar')[1].querySelectorAll('.drawn').length") == 0
        )
        below = "document.querySelector('#domains').offsetTop > document.querySelector('#nodes').offsetTop"
        assert await tab.run(below)
        await tab.resize(360, 800)
        assert await tab.run("document.documentElement.scrollWidth") <= 360
        states["feed"] = domain(in_force_watts=1_100, drawn=DrawnPower(measured_watts=500))
        await tab.until("document.querySelector('#domains tbody .in-force').classList.contains('above')")
        ratio, text, _ = min(await tab.run(CONTRASTS))
        assert ratio >= 4.5, text
        states.clear()
        await tab.until("document.querySelector('#domains').hidden")
        assert not [each for each in tab.events["Log.entryAdded"] if each["entry"]["level"] == "error"]


async def test_limits_that_are_raised_are_shown_as_no_fault(open_tab):
    over = OversubscriptionStatus(
        raised=True,
        permitted_watts=1_250,
        fallback_watts=980,
        breaker_damage_percent=10,
        reason="all is measured",
    )
    lower = over.model_copy(update={"raised": False})
    states = {
        "a": domain(in_force_watts=1_200, oversubscription=over),
        "b": domain(in_force_watts=900, oversubscription=lower),
        "c": domain(in_force_watts=1_200, oversubscription=lower, problem="AboveLimit"),
    }
    world = InventedCluster(wall=time.time, domains=lambda: bars_of(states))
    fill(world, 40)
    async with world.served() as url:
        tab = await opened(open_tab, url, 40)
        await tab.until("document.querySelectorAll('#domains tbody tr').length === 3")
        breaker = "nodes fall back to 980 W; 10% of what trips the breaker"
        assert [each[-1] for each in await tab.run(DOMAIN_ROWS)] == [
            f"held; limits raised up to 1250 W; {breaker}",
            f"held; limits not raised: all is measured; {breaker}",
            "AboveLimit: ",
        ]
        parts = await tab.run("""[...document.querySelectorAll('#domains tbody .bar')]
          .map((bar) => [...bar.children].map((each) => `${each.className} ${each.style.width}`))""")
        assert parts == [
            ["in-force raised 96%", "in-force 80%", "usable 80%", "permitted 100%"],
            ["in-force 72%", "usable 80%", "permitted 100%"],
            ["in-force above 96%", "usable 80%", "permitted 100%"],
        ]
        for scheme in ("light", "dark"):
            await tab.resize(1280, 980, scheme=scheme)
            ratio, text, _ = min(await tab.run(CONTRASTS))
            assert ratio >= 4.5, text


async def test_without_power_domains_there_is_no_section_of_them(open_tab):
    world = InventedCluster(wall=time.time)
    fill(world, 40)
    async with world.served() as url:
        tab = await opened(open_tab, url, 40)
        assert await tab.run("document.querySelector('#domains').hidden")


async def test_without_an_estimate_nothing_is_said_of_savings(open_tab):
    world = InventedCluster(wall=time.time)
    world.put_node("one", rack="r1")
    async with world.served() as url:
        tab = await opened(open_tab, url, 1)
        assert await tab.run("document.getElementById('savings').hidden")


async def test_names_and_reasons_are_text_whatever_they_contain_and_nothing_violates_the_policy(open_tab):
    world = InventedCluster(wall=time.time)
    # The API server refuses such names; whatever stands behind the page may not.
    world.put_node("n1", rack=MARKUP)
    world.put_target("n1", "performance")
    world.put_target("n1", "eco", reason=MARKUP)
    world.put_twin("n1", MARKUP)
    async with world.served() as url:
        tab = await opened(open_tab, url, 1)
        await tab.run(f"{CELLS}[0].click()")
        await tab.until("document.getElementById('details-list').textContent.includes('onerror')")
        shown = await tab.run("[document.querySelector('[role=rowheader]').textContent, document.images.length]")
        assert shown == [MARKUP, 1]
        assert MARKUP in await tab.run("document.getElementById('history').textContent")
        with pytest.raises(BrowserError, match="TrustedHTML"):
            await tab.run("document.body.innerHTML = 'x'")
        problems = [each["entry"]["text"] for each in tab.events["Log.entryAdded"]]
        assert [text for text in problems if "TrustedHTML" not in text] == []
        assert tab.events["Runtime.exceptionThrown"] == []


async def test_keys_move_through_the_grid_open_details_and_escape_returns(open_tab):
    world = InventedCluster(wall=time.time)
    for number in range(12):
        world.put_node(f"a-{number}", rack="r2")
        world.put_node(f"b-{number}", rack="r10")
    async with world.served() as url:
        tab = await opened(open_tab, url, 24)
        await tab.resize(1280, 900)
        assert await tab.run("document.querySelectorAll('[role=gridcell][tabindex=\"0\"]').length") == 1
        await tab.run(f"{CELLS}[0].focus()")
        columns = await tab.run(
            "getComputedStyle(document.querySelector('.tiles')).gridTemplateColumns.split(' ').length"
        )
        # Racks and nodes are in the order of their numbers.
        for key, modifiers, name in [
            ("ArrowRight", {}, "a-1"),
            ("ArrowLeft", {}, "a-0"),
            ("ArrowLeft", {}, "a-0"),
            ("ArrowDown", {}, f"a-{columns}"),
            ("ArrowUp", {}, "a-0"),
            ("End", {}, "a-11"),
            ("ArrowRight", {}, "b-0"),
            ("PageUp", {}, "a-0"),
            ("PageDown", {}, "b-0"),
            ("ArrowUp", {}, f"a-{11 // columns * columns}"),
            ("End", {"modifiers": 2}, "b-11"),
            ("Home", {}, "b-0"),
            ("Home", {"modifiers": 2}, "a-0"),
        ]:
            await tab.press(key, **modifiers)
            assert await tab.run(FOCUSED) == name, key
        assert await tab.run("document.querySelectorAll('[role=gridcell][tabindex=\"0\"]').length") == 1
        await tab.press("ArrowRight")
        await tab.press("Enter")
        assert await tab.run(FOCUSED) == "details-heading"
        assert await tab.run("document.getElementById('details-heading').textContent") == "a-1"
        await tab.press("Escape")
        assert await tab.run(FOCUSED) == "a-1"
        assert await tab.run("document.getElementById('details').hidden")


async def test_details_have_the_gpus_with_holders_and_limits_and_texts_of_others_are_no_markup(open_tab):
    world = InventedCluster(wall=time.time)
    world.put_node("n1")
    holders = [
        {"namespace": "ml", "pod": pod, "container": "main", "workloadClass": "standard"} for pod in ("train-0", MARKUP)
    ]
    now = {"limited": True, "limitMhz": 1300}
    limit = {"reason": "ClockLimited", "clockMhz": 1282, "now": now, "enforced": {"reason": "Set", "limitMhz": 1282}}
    whole = {"heldAs": "standard", "reason": "AllStandard", "watts": 287.5, "holderCount": 5, "classLimit": limit}
    outside = {"heldAs": "outside", "reason": "OutsideProcess", "message": "process 7"}
    world.devices["n1"] = devices({**whole, "holders": holders}, outside)
    text = "document.getElementById('details-list').textContent"
    async with world.served() as url:
        tab = await opened(open_tab, url, 1)
        await tab.run(f"{CELLS}[0].focus()")
        await tab.press("Enter")
        await tab.until(f"{text}.includes('GPU 1')")
        shown = await tab.run(text)
        assert (
            f"standard (AllStandard); 288 W; ml/train-0 main, standard; ml/{MARKUP} main, standard; and 3 more" in shown
        )
        assert "in force 1300 MHz; would be 1282 MHz (ClockLimited); by class: Set" in shown
        assert "outside (OutsideProcess: process 7); draw unknown; no holder" in shown
        assert await tab.run("document.querySelector('#details img')") is None
        world.devices.clear()
        await tab.press("Escape")
        await tab.press("Enter")
        await tab.until(f"!{text}.includes('GPU')")


async def test_a_lost_connection_is_shown_and_announced_and_a_new_one_shows_the_nodes_of_then(open_tab):
    world = InventedCluster(wall=time.time)
    fill(world, 5)
    async with world.served() as url:
        tab = await opened(open_tab, url, 5)
        await tab.run(f"{CELLS}[2].focus()")
        world.remove_node("node-0")
        world.leading = False
        world.feed.close()
        await tab.until("document.getElementById('connection').dataset.state === 'lost'")
        await tab.until(f"{CELLS}.length === 4 && document.getElementById('connection').dataset.state === 'live'")
        await tab.until("document.getElementById('notice').textContent.includes('not the leader')")
        assert (await tab.run(FOCUSED)) in {"node-2", "node-3", "node-1"}


async def accessible(tab):
    """Return role and name of what assistive technology is given."""
    return [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in (await tab.send("Accessibility.getFullAXTree"))["nodes"]
        if not node["ignored"]
    ]


async def test_assistive_technology_finds_landmarks_headings_and_a_name_for_everything(open_tab):
    world = InventedCluster(wall=time.time)
    for number in range(10):
        world.put_node(f"n{number}", rack=f"r{number % 2}")
        world.put_twin(f"n{number}")
    async with world.served() as url:
        tab = await opened(open_tab, url, 10)
        await tab.run(f"{CELLS}[0].click()")
        nodes = await accessible(tab)
    roles = [role for role, _ in nodes]
    for landmark in ("banner", "main", "complementary", "grid", "table", "status"):
        assert roles.count(landmark) == 1, landmark
    named = {"gridcell", "rowheader", "button", "link", "region", "complementary", "grid", "heading", "columnheader"}
    assert [role for role, name in nodes if role in named and not name] == []
    assert ("heading", "Nodes by rack") in nodes
    assert roles.count("gridcell") == 10


@pytest.mark.parametrize("per_rack", [1, 40])
async def test_assistive_technology_finds_the_nodes_of_racks_below_the_window(open_tab, per_rack):
    world = InventedCluster(wall=time.time)
    fill(world, 400, rack_nodes=per_rack)
    async with world.served() as url:
        nodes = await accessible(await opened(open_tab, url, 400))
    assert sum(role == "gridcell" for role, _ in nodes) == 400


async def test_every_rack_of_a_large_cluster_has_a_name(open_tab):
    world = InventedCluster(wall=time.time)
    fill(world, 1100, rack_nodes=11)
    async with world.served() as url:
        tab = await opened(open_tab, url, 1100)
        nodes = await accessible(tab)
        racks = await tab.run("[...document.querySelectorAll('.rack-name')].map((each) => each.textContent)")
    assert len(set(racks)) >= 100
    assert set(racks) <= {name for role, name in nodes if role == "row"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_text_has_a_contrast_of_at_least_four_and_a_half(open_tab, scheme):
    world = InventedCluster(wall=time.time)
    for number, watts in enumerate([None, 10, 100, 200, 300, 390, 500]):
        world.put_node(f"n{number}", sleep_state="asleep" if number == 3 else "")
        world.put_twin(f"n{number}", "draining", watts=watts, capped_watts=400, age_s=900 if number == 2 else 0)
        world.put_target(f"n{number}", "performance")
        world.put_target(f"n{number}", "eco")
    world.leading = False
    async with world.served() as url:
        tab = await opened(open_tab, url, 7)
        await tab.resize(1280, 900, scheme=scheme)
        await tab.run(f"{CELLS}[0].click()")
        found = await tab.run(CONTRASTS)
    assert len(found) > 60
    assert [each for each in found if each[0] < 4.5] == []


async def test_totals_come_with_the_first_nodes_and_not_with_the_next_tick_of_a_timer(open_tab):
    world = InventedCluster(wall=time.time)
    fill(world, 40)
    async with world.served() as url:
        tab = await open_tab("about:blank")
        await tab.send("Page.addScriptToEvaluateOnNewDocument", source="window.setInterval = () => 0")
        await tab.send("Page.navigate", url=f"{url}/ui/")
        await tab.until(f"{CELLS}.length === 40")
        await tab.until("document.querySelector('#totals tr:last-child td')?.textContent == 40", timeout_s=5)
        assert await tab.run("document.querySelector('#empty').hidden")


async def test_a_page_that_has_heard_nothing_does_not_say_that_there_are_no_nodes(open_tab):
    world = InventedCluster(wall=time.time)
    async with world.served() as url:
        tab = await open_tab("about:blank")
        silent = "window.EventSource = class extends EventTarget {}"
        await tab.send("Page.addScriptToEvaluateOnNewDocument", source=silent)
        await tab.send("Page.navigate", url=f"{url}/ui/")
        await tab.until("document.querySelectorAll('#totals tr').length > 0")
        assert await tab.run("document.querySelector('#empty').hidden")


@pytest.mark.parametrize("width", [1025, 1100, 1280, 1366])
async def test_beside_the_transitions_the_table_of_watts_does_not_scroll_sideways(open_tab, width):
    world = InventedCluster(wall=time.time)
    fill(world, 500)
    async with world.served() as url:
        tab = await opened(open_tab, url, 500)
        await tab.resize(width, 900)
        region = "document.querySelector('.scroll')"
        assert await tab.run(f"{region}.scrollWidth - {region}.clientWidth") == 0
        assert await tab.run("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("count", [40, 500])
async def test_at_360_pixels_nothing_is_wider_than_the_window(open_tab, count):
    world = InventedCluster(wall=time.time)
    fill(world, count)
    async with world.served() as url:
        tab = await opened(open_tab, url, count)
        await tab.resize(360, 800)
        assert await tab.run("document.documentElement.scrollWidth") <= 360
        await tab.run(f"{CELLS}[0].click()")
        assert await tab.run("document.documentElement.scrollWidth") <= 360
