"""What the page costs at 5,000 nodes: frames in Chromium, and CPU time of the process that feeds it.

    python -m tests.live_page.cost [NODES [CHANGES_PER_SECOND]]

A frame's time is from its start to the end of its painting, with what other processes delay: it needs a quiet machine.
The CPU time of the feeding process includes the changes, which it makes: without a page, then with one open; the
difference is what a page costs. By default 100 nodes change in a second, as many as twins are written of 5,000 nodes at
rest.
"""

import asyncio
import random
import sys
import time

import numpy as np
from services.operator.tests.ui.invented import InventedCluster, fill
from tests.live_page.browser import browser

from joulie_operator.ui.server import page_files

PHASE_S = 20.0
_TICKS_PER_S = 20
_FRAMES = """new Promise((done) => {
  const times = [], channel = new MessageChannel(), end = performance.now() + PHASE_MS;
  let startedAt = 0;
  channel.port1.onmessage = () => {
    times.push(performance.now() - startedAt);
    if (performance.now() > end) done(times); else requestAnimationFrame(step);
  };
  const step = (time) => { startedAt = time; channel.port2.postMessage(0); };
  requestAnimationFrame(step);
})"""


async def change(world, names, per_second, chance):
    """Write new twins of random nodes until cancelled."""
    while True:
        for name in chance.choices(names, k=round(per_second / _TICKS_PER_S)):
            twin = world.twins.get(name)
            capped = twin.capped_watts if twin is not None else 700
            watts = capped * chance.betavariate(4, 2.5)
            world.put_twin(name, chance.choice(["performance", "eco"]), watts=watts, capped_watts=capped)
        await asyncio.sleep(1 / _TICKS_PER_S)


async def main(count=5000, per_second=100):
    """Measure, and print the figures."""
    world = InventedCluster(wall=time.time, interval_s=1.0)
    fill(world, count)
    changing = asyncio.create_task(change(world, list(world.cluster.nodes), per_second, random.Random(3)))
    async with browser() as open_tab, world.served() as url:
        before_s = time.process_time()
        await asyncio.sleep(PHASE_S)
        alone_s = time.process_time() - before_s
        before_s = time.process_time()
        tab = await open_tab(f"{url}/ui/")
        await tab.resize(1280, 1100)
        shown = f"document.querySelector('#totals tr:last-child td')?.textContent == {count}"
        await tab.until(shown, timeout_s=120)
        opening_s = time.process_time() - before_s
        await tab.send("Performance.enable", timeDomain="threadTicks")
        start = await metrics(tab)
        before_s = time.process_time()
        frames = await tab.run(_FRAMES.replace("PHASE_MS", str(PHASE_S * 1000)))
        open_s, spent_s = time.process_time() - before_s, (await metrics(tab))["TaskDuration"] - start["TaskDuration"]
    changing.cancel()
    print(f"{count} nodes, {per_second} changes per second, {PHASE_S:g} s")
    print(f"files of the page: {sum(map(len, page_files().values()))} bytes")
    print(f"CPU of the feeding process without a page: {100 * alone_s / PHASE_S:.2f} % (the changes themselves)")
    print(f"CPU of the feeding process with one page:  {100 * open_s / PHASE_S:.2f} %")
    print(f"CPU to open the page: {1000 * opening_s:.0f} ms")
    print(f"CPU of the page's thread: {100 * spent_s / PHASE_S:.1f} %")
    shares = ", ".join(f"p{100 * share:g} {np.quantile(frames, share):.1f} ms" for share in (0.5, 0.95, 0.99))
    print(f"time of {len(frames)} frames: {shares}, longest {max(frames):.1f} ms")


async def metrics(tab):
    """Return the browser's figures of the page by name."""
    return {each["name"]: each["value"] for each in (await tab.send("Performance.getMetrics"))["metrics"]}


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:3])))
