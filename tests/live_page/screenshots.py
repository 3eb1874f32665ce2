"""Screenshots of the live page on invented clusters of 40 and 5,000 nodes: `python -m tests.live_page.screenshots`."""

import asyncio
import random
import sys
import time
from pathlib import Path

from services.operator.tests.ui.invented import InventedCluster, fill, put_at_random
from tests.live_page.browser import browser


async def take():
    """Yield name and content of each picture."""
    async with browser() as open_tab:
        for count, height in ((40, 980), (5000, 1100)):
            world = InventedCluster(wall=time.time, interval_s=0.2)
            fill(world, count, rack_nodes=40 if count > 1000 else 10)
            chance = random.Random(2)
            for number in range(30):
                put_at_random(world, f"node-{number:04}" if count > 1000 else f"node-{number}", chance)
            async with world.served() as url:
                tab = await open_tab(f"{url}/ui/")
                await tab.until(f"document.querySelectorAll('[role=gridcell]').length === {count}")
                await tab.until(f"document.querySelector('#totals tr:last-child td')?.textContent == {count}")
                if count > 1000:
                    await tab.run("document.querySelector('[aria-label^=\"node-0007\"]').click(); scrollTo(0, 0)")
                for scheme in ("light", "dark"):
                    await tab.resize(1280, height, scheme=scheme)
                    await tab.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
                    yield f"live-page-{count}-{scheme}.png", await tab.screenshot()


async def main(directory):
    async for name, content in take():
        (directory / name).write_bytes(content)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
