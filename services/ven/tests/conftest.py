"""A VTN, and the VEN in the test's process between it and the in-process API server."""

import asyncio

import pytest
from services.ven.tests.specification import Specification, find
from services.ven.tests.vtn import VEN, Vtn

from joulie_api.app import App
from joulie_api.settings import read_settings
from joulie_sim.stack.permissions import denied
from joulie_ven.app import run
from joulie_ven.settings import VenSettings


@pytest.fixture(scope="session")
def specification():
    """The published document; skip the test where it is not here."""
    path = find()
    if path is None:
        pytest.skip("no openadr-3.1.0/openadr3.yaml in the directory JOULIE_DATA_DIR")
    return Specification(path)


@pytest.fixture(scope="session")
def judge():
    """The published document, None where it is not here."""
    path = find()
    return None if path is None else Specification(path)


@pytest.fixture
async def vtn(judge):
    """A VTN; what violates the specification fails the test."""
    async with Vtn(judge) as found:
        yield found
    assert found.violations == []


@pytest.fixture
def credentials(tmp_path):
    """A directory with the VEN's credentials."""
    directory = tmp_path / "credentials"
    directory.mkdir()
    (directory / "client-id").write_text(VEN[0] + "\n")
    (directory / "client-secret").write_text(VEN[1] + "\n")
    return directory


@pytest.fixture
def env(credentials):
    """Settings of the VEN, as variables; the test adds the address of its VTN."""
    return {
        "METRICS_ADDR": "127.0.0.1:0",
        "VTN_CREDENTIALS_DIR": str(credentials),
        "VTN_PROGRAM": "dispatch",
        "VTN_POLL_INTERVAL": "50ms",
        "VTN_REQUEST_TIMEOUT": "2s",
        "VEN_NAME": "ven-1",
        "POWER_DOMAIN": "site",
    }


class Site:
    """What tests read from the API server."""

    def __init__(self, api, env, metrics):
        self.api = api
        self._env = env
        self._running = []
        self._metrics = metrics

    def start(self, **env):
        """Start a VEN; keyword arguments are settings."""
        settings = read_settings(VenSettings, self._env | env)
        app = App(settings, service="joulie-ven")
        self._running.append((app, asyncio.create_task(run(settings, app), name="ven")))
        self._metrics = app.registry
        return app

    async def stop(self):
        """End it in good order."""
        for app, task in self._running:
            app.stop()
            await asyncio.wait_for(task, 20)
        self._running.clear()

    async def kill(self):
        """Break it off wherever it is."""
        for _, task in self._running:
            task.cancel()
            await asyncio.wait({task})
        self._running.clear()

    @property
    def events(self):
        """The PowerEvents, in the order of their starts."""
        return sorted(self.api.objects("PowerEvent"), key=lambda each: each["spec"].get("start", ""))

    def specs(self):
        """Limit and end of each PowerEvent; None for one without an end."""
        return [(each["spec"]["limitWatts"], each["spec"].get("end")) for each in self.events]

    async def series(self, name, **labels):
        """The value of a series, None without it."""
        await self._metrics.render()
        return self._metrics.get_sample_value(name, labels)

    async def until(self, condition, timeout_s=20):
        try:
            await self.api.wait_for(condition, timeout_s=timeout_s)
        except TimeoutError:
            pytest.fail(f"did not come true: {self.events}")

    async def reported(self, vtn):
        """Wait until the VTN has a report."""
        async with asyncio.timeout(20):
            while not vtn.reports:  # noqa: ASYNC110 - the VTN has no event
                await asyncio.sleep(0.02)

    async def polls(self, reason, count=2):
        """Wait for that many further polls that end so."""
        async with asyncio.timeout(20):
            name = "joulie_ven_polls_total"
            first = await self.series(name, reason=reason) or 0
            while (await self.series(name, reason=reason) or 0) < first + count:  # noqa: ASYNC110 - a metric has no event
                await asyncio.sleep(0.02)


@pytest.fixture
async def site(fake_api, env, vtn, tmp_path):
    found = Site(fake_api, env | {"VTN_URL": vtn.url, "KUBECONFIG": str(fake_api.kubeconfig(tmp_path))}, None)
    yield found
    await found.kill()
    assert denied("joulie-ven", fake_api.requests) == []
