"""A small invented cluster, and pages that are open on it."""

import pytest
from services.operator.tests.ui.invented import InventedCluster


@pytest.fixture
def world():
    return InventedCluster()
