"""Events that a client of others publishes become PowerEvents. The client is in an environment of its own."""

import asyncio
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from joulie_core.timestamps import rfc3339

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def foreign_python(tmp_path_factory):
    """Return the interpreter of an environment with the client; skip the test where that cannot be installed."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        pytest.skip("no uv, which installs the client openadr3")
    home = tmp_path_factory.mktemp("openadr3")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(home)], check=True, timeout=60)
    python = home / "bin" / "python"
    wanted = ["--require-hashes", "-r", str(HERE / "openadr3.txt")]
    made = subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", str(python), *wanted],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"the client openadr3 cannot be installed: {made.stderr[-300:]}")
    return python


@pytest.mark.usefixtures("specification")
async def test_a_client_of_others_publishes_changes_and_deletes_a_limit(vtn, site, foreign_python):
    async def write(*arguments):
        process = await asyncio.create_subprocess_exec(
            foreign_python, HERE / "independent_writer.py", vtn.url, *arguments, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0
        return json.loads(output)

    site.start()
    start = rfc3339(int(time.time()) + 600, "seconds")
    made = await write("publish", "750.5", start, "PT3H")
    await site.until(lambda: site.events)
    [spec] = [each["spec"] for each in site.events]
    end = rfc3339(int(time.time()) + 600, "seconds")
    assert (spec["limitWatts"], spec["start"], spec["start"] <= end < spec["end"]) == (750_500, start, True)
    await write("change", made["id"], "400", start, "PT3H")
    await site.until(lambda: site.events[0]["spec"]["limitWatts"] == 400_000)
    assert await write("delete", made["id"]) == {"id": made["id"], "events": 0}
    await site.until(lambda: not site.events)
