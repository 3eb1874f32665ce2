"""GPUs that live in a file, vendor libraries compiled over it, and processes that drive them with the real packages."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from joulie_actuator import blocking_client
from joulie_actuator.protocol import Request
from joulie_testing.agent.fake_sysfs import FakeMachine
from joulie_testing.agent.machine_spec import PLATFORMS
from joulie_testing.agent.stub_gpus import StubHardware, StubState, stub_hardware
from joulie_testing.agent.stub_libraries import AMD_SMI, compile_amdsmi, compile_nvml, compile_stub

STUBS = Path(__file__).parents[2] / "stubs"
DRIVER_PROCESS = Path(__file__).with_name("driver_process.py")


@pytest.fixture
def hardware(tmp_path: Path) -> StubHardware:
    """Return a machine without GPUs, the driver loaded, whose users are root."""
    return stub_hardware(tmp_path / "gpus")


@dataclass(slots=True)
class DriverProcess:
    """A process that drives GPUs as the agent does."""

    process: subprocess.Popen[str]

    def __call__(self, operation: str, uuid: str = "", *, value: int = 0) -> Any:
        """Have something done and return the answer, a failure as `{"reason", "message"}`."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"operation": operation, "uuid": uuid, "value": value}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the process has ended; its errors are in the test's output"
        return json.loads(line)

    def reason(self, operation: str, uuid: str = "", *, value: int = 0) -> Any:
        """Have something done that fails, and return the reason."""
        answer = self(operation, uuid, value=value)
        assert isinstance(answer, dict), f"expected a failure, not {answer}"
        return answer["reason"]


StartDriver = Callable[..., DriverProcess]


@pytest.fixture
def start_driver(hardware: StubHardware) -> Iterator[StartDriver]:
    """Start processes; `library` is the folder that the vendor's library is found in, none for none."""
    with ExitStack() as stack:

        def start(
            vendor: str, library: Path | None = None, *, rocm: Path | None = None, deadline_s: float = 0
        ) -> DriverProcess:
            environment = {name: value for name, value in os.environ.items() if not name.startswith("ROCM_")}
            environment["JOULIE_STUB_GPU_STATE"] = str(hardware.path)
            environment["LD_LIBRARY_PATH"] = str(library or "")
            if rocm is not None:
                environment["ROCM_PATH"] = str(rocm)
            argv = [sys.executable, str(DRIVER_PROCESS), vendor, str(deadline_s)]
            process = subprocess.Popen(
                argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return DriverProcess(process)

        yield start


@dataclass(slots=True)
class GpuNode:
    """A machine whose GPUs live in a file, and the commands run on it."""

    environment: dict[str, str]
    state: StubState
    processes: list[subprocess.Popen[str]]

    def start(self, grace_s: float = 20) -> subprocess.Popen[str]:
        """Start the actuator and wait until it listens."""
        environment = self.environment | {"ACTUATOR_STOP_GRACE": str(grace_s)}
        argv = [sys.executable, "-m", "joulie_actuator", "actuator"]
        process = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        assert process.stdout is not None
        while json.loads(process.stdout.readline())["event"] != "listening":
            pass
        return process

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run another command to its end."""
        argv = [sys.executable, "-m", "joulie_actuator", command]
        return subprocess.run(argv, env=self.environment, capture_output=True, text=True, timeout=60, check=False)

    def request(self, request: Request) -> Any:
        """Ask the actuator."""
        return blocking_client.request(self.environment["ACTUATOR_SOCKET"], request, 30)

    @staticmethod
    def wait_until(condition: Callable[[], bool]) -> None:
        """Wait for what another process does."""
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.fixture
def make_gpu_node(tmp_path: Path, hardware: StubHardware) -> Iterator[Callable[[Path], GpuNode]]:
    """Make a machine; the argument is the folder that the vendor's library is found in."""
    processes: list[subprocess.Popen[str]] = []

    def make(library: Path) -> GpuNode:
        machine = FakeMachine(tmp_path / "machine", PLATFORMS["xeon-2s"])
        environment = os.environ | {
            "HOST_SYS_ROOT": str(machine.sys),
            "HOST_PROC_ROOT": str(machine.proc),
            "STATE_DIR": str(tmp_path / "journals"),
            "ACTUATOR_SOCKET": str(tmp_path / "socket"),
            "JOULIE_STUB_GPU_STATE": str(hardware.path),
            "LD_LIBRARY_PATH": str(library),
        }
        return GpuNode(environment, hardware.state, processes)

    yield make
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def nvml_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile libnvidia-ml.so.1."""
    return compile_nvml(STUBS, tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def old_nvml_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile one of a driver that does not tell the enforced limit."""
    return compile_nvml(STUBS, tmp_path_factory.mktemp("old-nvml"), "-DBEFORE_ENFORCED_LIMIT")


@pytest.fixture(scope="session")
def amdsmi_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile libamd_smi.so with every function that the package binds."""
    return compile_amdsmi(STUBS, tmp_path_factory.mktemp("amdsmi"))


@pytest.fixture(scope="session")
def old_amdsmi_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile one that lacks what the package has come to bind since."""
    return compile_stub(tmp_path_factory.mktemp("old-amdsmi"), AMD_SMI, STUBS / "amdsmi/amdsmi.c")
