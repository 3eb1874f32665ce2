import pytest
from services.containers.tests.resources.pipeline.pipeline_bench import Files, PipelineBench


@pytest.fixture
async def bench(tmp_path):
    bench = PipelineBench(tmp_path, files=Files())
    await bench.start()
    return bench
