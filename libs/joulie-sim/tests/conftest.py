"""Public data that some tests compare the simulator with; docs/testing.md says where it comes from."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def public_data():
    """Return the path of a public file; skip the test where it is not here."""
    roots = [os.environ.get("JOULIE_DATA_DIR"), Path(__file__).parents[4] / "shared" / "data"]

    def find(name):
        paths = (Path(root) / name for root in roots if root)
        found = next((path for path in paths if path.is_file()), None)
        if found is None:
            pytest.skip(f"no {name} in the directory JOULIE_DATA_DIR")
        return found

    return find
