"""Fixtures for every test in the repository."""

import asyncio

from hypothesis import settings

pytest_plugins = ["joulie_api.testing.fixtures", "joulie_devcluster.fixtures", "tests.e2e.audit_plugin"]

# Before its first test pytest-asyncio asks for the current event loop, to restore it at the end. Python 3.11 then
# creates one that nobody closes, and a ResourceWarning is an error here. Told that there is none, it restores none.
asyncio.set_event_loop(None)

# How long one example takes says nothing on a busy machine; pytest-timeout bounds the whole test.
settings.register_profile("joulie", deadline=None)
settings.load_profile("joulie")
