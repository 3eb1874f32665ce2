"""Fixtures for every test in the repository."""

pytest_plugins = ["joulie_api.testing.fixtures"]
