"""The resource manager on a fake runtime with two containers, one of which has exclusive CPUs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from joulie_api.app import App
from joulie_api.settings import read_settings
from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.resources import process
from joulie_containers.resources.settings import ResourcesSettings
from joulie_devcluster.host.ports import LOOPBACK, free_port
from joulie_testing.agent.fake_nri_runtime import FakeNriRuntime
from joulie_testing.agent.host_files import put_host
from joulie_testing.core.machines import MachineShape

_GUARANTEED, _BURSTABLE = "/kubepods", "/kubepods/burstable"


@asynccontextmanager
async def resource_manager(directory: Path) -> AsyncIterator[int]:
    """Run a resource manager in this process; yields the port of its metrics."""
    put_host(directory / "host", MachineShape(packages=2, cores_per_node=4).topology())
    port = free_port()
    env = {
        "POLICY": "topology-aware",
        "NODE_NAME": "n1",
        "HOST_ROOT": str(directory / "host"),
        "STATE_DIR": str(directory / "state"),
        "NRI_SOCKET": str(directory / "nri.sock"),
        "METRICS_ADDR": f"{LOOPBACK}:{port}",
    }
    runtime = FakeNriRuntime(request_timeout_s=20)
    async with runtime.listening(directory / "nri.sock"):
        started: asyncio.Future[App] = asyncio.get_running_loop().create_future()
        settings = read_settings(ResourcesSettings, env)
        task = asyncio.create_task(process.run(settings, on_start=lambda app, _manager: started.set_result(app)))
        try:
            await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            await runtime.registered()
            await _run(runtime, "exclusive", _GUARANTEED, cpus=2)
            await _run(runtime, "shared", _BURSTABLE, cpus=1)
            yield port
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _run(runtime: FakeNriRuntime, name: str, parent: str, *, cpus: int) -> None:
    pod = nri.PodSandbox(id=f"pod-{name}", name=name, uid=f"uid-{name}", namespace="default")
    pod.linux.cgroup_parent = f"{parent}/pod{name}"
    container = nri.Container(id=name, pod_sandbox_id=pod.id, name="main", state=nri.CONTAINER_CREATED)
    container.linux.resources.cpu.shares.value = 1024 * cpus
    await runtime.run_pod(pod)
    await runtime.create_container(container)
    await runtime.start_container(name)
