import pytest
from services.containers.tests.resources.engine.engine_bench import EngineBench


@pytest.fixture
async def bench(tmp_path):
    bench = EngineBench(tmp_path)
    await bench.configure()
    await bench.list()
    return bench
