"""What open pages are sent, and when nothing is computed."""

import asyncio
import json

import pytest
from services.operator.tests.ui.invented import InventedCluster, fill

from joulie_core.savings import Lever, LeverRate
from joulie_core.savings.rates import UNKNOWN_RATE, EstimateRange
from joulie_operator.ui import feed as feed_module
from joulie_operator.ui.feed import MOST_PAGES, SLICE, TooManyPagesError
from joulie_operator.ui.subscriber import Subscriber


class Page:
    """A page that keeps what it is sent, as a browser would."""

    def __init__(self, world, **kwargs):
        self.subscriber = Subscriber(lambda: None, **kwargs)
        self.tiles, self.history, self.state, self.events = {}, [], None, []
        world.feed.join(self.subscriber)

    async def read(self):
        """Take everything that waits."""
        self.events.clear()
        while self.subscriber._waiting:
            head, data = (await self.subscriber.next()).decode().removesuffix("\n\n").split("\n")
            name, content = head.removeprefix("event: "), json.loads(data.removeprefix("data: "))
            self.events.append(name)
            match name:
                case "start":
                    self.fields, self.tiles, self.history = content["tileFields"], {}, []
                case "nodes":
                    self.tiles |= {tile[0]: dict(zip(self.fields, tile, strict=True)) for tile in content["tiles"]}
                    for name in content["gone"]:
                        del self.tiles[name]
                case "history":
                    self.history += content
                case "state":
                    self.state = content
        return self


async def test_a_first_page_gets_every_node_and_then_what_has_changed(world):
    fill(world, 30)
    page = Page(world)
    await world.feed.deliver()
    await page.read()
    assert page.tiles.keys() == world.cluster.nodes.keys()
    world.put_twin("node-3", "draining", watts=123)
    world.put_pod("new", "node-4", performance=True)
    before = page.tiles["node-4"]["performance_pods"]
    await world.feed.deliver()
    tiles = dict(page.tiles)
    await page.read()
    assert {name for name, tile in page.tiles.items() if tiles[name] != tile} == {"node-3", "node-4"}
    assert (page.tiles["node-3"]["node_class"], page.tiles["node-3"]["watts"]) == ("draining", 123)
    assert page.tiles["node-4"]["performance_pods"] == before + 1
    assert page.events == ["nodes", "state"]


async def test_a_later_page_has_at_once_what_the_first_one_shows(world):
    fill(world, 30)
    first = Page(world)
    await world.feed.deliver()
    await first.read()
    world.put_twin("node-3", "draining", watts=123)
    second = Page(world)
    await second.read()
    assert second.tiles == first.tiles
    await world.feed.deliver()
    assert (await second.read()).tiles == (await first.read()).tiles
    assert second.tiles["node-3"]["watts"] == 123


async def test_a_page_that_opens_after_all_others_have_closed_gets_everything_as_it_is_then(world):
    fill(world, 5)
    first = Page(world)
    await world.feed.deliver()
    world.feed.leave(first.subscriber)
    world.remove_node("node-1")
    world.put_twin("node-2", "eco", watts=99)
    page = Page(world)
    await world.feed.deliver()
    await page.read()
    assert page.tiles.keys() == {"node-0", "node-2", "node-3", "node-4"}
    assert page.tiles["node-2"]["watts"] == 99


async def test_a_node_that_leaves_is_gone_and_one_that_was_never_shown_is_not_mentioned(world):
    fill(world, 3)
    page = Page(world)
    await world.feed.deliver()
    world.remove_node("node-1")
    world.put_twin("stranger")
    await world.feed.deliver()
    await page.read()
    assert page.tiles.keys() == {"node-0", "node-2"}


async def test_many_changes_of_a_node_between_two_deliveries_are_one_tile(world):
    fill(world, 1)
    page = Page(world)
    await world.feed.deliver()
    await page.read()
    for watts in range(100, 200):
        world.put_twin("node-0", watts=watts)
    await world.feed.deliver()
    await page.read()
    assert page.events == ["nodes", "state"]
    assert page.tiles["node-0"]["watts"] == 199


async def test_a_change_that_shows_nowhere_is_not_sent(world):
    fill(world, 1)
    page = Page(world)
    world.put_twin("node-0", watts=200.1)
    await world.feed.deliver()
    await page.read()
    world.put_twin("node-0", watts=200.2)
    await world.feed.deliver()
    assert (await page.read()).events == ["state"]


async def test_many_nodes_come_in_slices_and_other_tasks_run_in_between(world):
    fill(world, 2 * SLICE + 1)
    page = Page(world)
    turns = []

    async def count():
        while True:
            turns.append(page.subscriber._bytes)
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await world.feed.deliver()
    counting.cancel()
    assert len(set(turns)) >= 3
    await page.read()
    assert page.events.count("nodes") == 3


async def test_without_a_page_nothing_is_computed_or_kept(world, monkeypatch):
    monkeypatch.setattr(feed_module, "tile_of", lambda _: pytest.fail("computed"))
    running = asyncio.create_task(world.feed.run())
    fill(world, 10)
    for _ in range(5):
        await asyncio.sleep(0)
    assert (world.feed._changed, world.feed._tiles, world.feed.open_pages) == (set(), {}, 0)
    assert not running.done()
    running.cancel()


async def test_transitions_from_before_the_page_was_opened_come_first_and_later_ones_once(world):
    fill(world, 3)
    world.put_target("node-0", "performance")
    world.put_target("node-0", "draining")
    earlier = len(world.feed._history.since(0))
    first = Page(world)
    await first.read()
    assert len(first.history) == earlier
    world.put_target("node-0", "eco")
    second = Page(world)
    await world.feed.deliver()
    await world.feed.deliver()
    for page in (first, second):
        await page.read()
        assert len(page.history) == earlier + 1
        assert page.history[-1][2:6] == ["node-0", "draining", "eco", "EcoUnblocked"]


async def test_the_state_has_the_role_the_demand_and_the_watches_that_are_stale(world):
    world.put_pod("waiting", performance=True)
    page = Page(world)
    await page.read()
    assert page.state == {"now": world.wall(), "leading": True, "performancePods": 1, "staleWatches": {}}
    world.leading = False
    world.pods_watch.reason = "no contact for 70 s"
    await world.feed.deliver()
    await page.read()
    assert (page.state["leading"], page.state["staleWatches"]) == (False, {"pods": "no contact for 70 s"})


async def test_a_page_that_does_not_read_is_dropped_and_the_others_are_served(world):
    fill(world, 5)
    slow, reading = Page(world, backlog_bytes=2000), Page(world)
    for watts in range(50):
        world.put_twin("node-0", watts=100 + watts)
        await world.feed.deliver()
        await reading.read()
    assert world.feed.open_pages == 1
    assert await slow.subscriber.next() is None
    assert reading.tiles["node-0"]["watts"] == 149


async def test_no_more_pages_are_open_than_may_be(world):
    pages = [Page(world) for _ in range(MOST_PAGES)]
    with pytest.raises(TooManyPagesError):
        Page(world)
    world.feed.leave(pages[0].subscriber)
    Page(world)
    assert world.feed.open_pages == MOST_PAGES


async def test_closing_ends_all_pages(world):
    pages = [Page(world) for _ in range(2)]
    world.feed.close()
    assert [await page.subscriber.next() for page in pages] == [None, None]


async def test_a_page_gets_what_each_lever_saves_where_that_is_estimated(world):
    await world.feed.deliver()
    assert "savings" not in (await Page(world).read()).state
    rates = {
        Lever.SLEEP: LeverRate(EstimateRange(900.0, 1000.0, 1100.0), unknown_share=0.25),
        Lever.CAPS: UNKNOWN_RATE,
    }
    state = (await Page(InventedCluster(savings=lambda: rates)).read()).state
    assert state["savings"] == [
        {"lever": "sleep", "watts": {"lower": 900.0, "middle": 1000.0, "upper": 1100.0}, "unknownShare": 0.25},
        {"lever": "caps", "watts": {"lower": 0.0, "middle": 0.0, "upper": 0.0}, "unknownShare": 1.0},
    ]
