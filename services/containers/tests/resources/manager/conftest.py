import pytest
from services.containers.tests.resources.manager.manager_bench import Managers


@pytest.fixture
def managers(node, tmp_path):
    (tmp_path / "host").mkdir()
    return Managers(node, tmp_path / "host")
