import asyncio
import threading
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from joulie_actuator.client import ActuatorClient, InProcessActuator
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.protocol import DescribeCpu, ReadCpu, ReadGpu, SetCpuCap, Subsystem, encode
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import CpuReadings, ErrorReply, GpuReadings
from joulie_actuator.server import Admission, Server
from joulie_actuator.subsystems import HostSubsystems
from joulie_testing.agent.fake_gpu import FakeGpu, fake_gpu_driver

CAP = SetCpuCap(cap_watts_per_package=90, lease_s=60)


@pytest.fixture
def gpus():
    return fake_gpu_driver(FakeGpu("a"))


@pytest.fixture
def serve(actuator_settings, events, gpus):
    """Start an actuator in threads; what is returned stops it."""
    settings, machine = actuator_settings()
    stops = []

    def start():
        machine = HostSubsystems(settings, events, drivers=[gpus[0]])
        server = Server(Path(settings.actuator_socket), machine.executors, Admission(0, 0), events)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()

        def stop():
            server.shutdown()
            thread.join()
            server.server_close()
            machine.close()

        stops.append(stop)
        return stop

    start.path = settings.actuator_socket
    start.machine = machine
    yield start
    stops[-1]()


async def test_requests_reach_the_hardware(serve):
    serve()
    client = ActuatorClient(serve.path)
    assert isinstance(await client.execute(CAP), ControlOutcome)
    assert [serve.machine.read(path) for path in serve.machine.limits()] == [90_000_000] * 2
    cpu, gpu = await asyncio.gather(client.execute(ReadCpu()), client.execute(ReadGpu()))
    assert isinstance(cpu, CpuReadings)
    assert isinstance(gpu, GpuReadings)
    await client.close()


async def test_where_there_is_no_actuator_the_failure_is_no_fault(tmp_path):
    answer = await ActuatorClient(str(tmp_path / "none")).execute(DescribeCpu())
    assert isinstance(answer, HardwareFailure)
    assert answer.reason is Reason.NO_HOST_INTERFACE


@asynccontextmanager
async def _scripted(path, answer):
    """A server that does with each connection what `answer` does."""
    writers = []

    async def serve(reader, actuator):
        writers.append(actuator)
        await answer(reader, actuator)

    async with await asyncio.start_unix_server(serve, path):
        yield
    for actuator in writers:
        actuator.close()
        await actuator.wait_closed()


async def test_an_actuator_that_was_restarted_is_found_again_without_a_failure(tmp_path):
    connections = []

    async def once(reader, actuator):
        connections.append(actuator)
        await reader.readline()
        actuator.write(encode(ErrorReply(message=f"connection {len(connections)}")))
        actuator.close()

    async with _scripted(tmp_path / "s", once):
        client = ActuatorClient(str(tmp_path / "s"))
        assert await client.execute(DescribeCpu()) == ErrorReply(message="connection 1")
        assert await client.execute(DescribeCpu()) == ErrorReply(message="connection 2")
        await client.close()


async def test_a_late_answer_is_not_taken_for_the_answer_to_another_request(tmp_path):
    silent = True

    async def answer(reader, actuator):
        while await reader.readline():
            if not silent:
                actuator.write(encode(ErrorReply(message="fresh")))
        actuator.close()

    async with _scripted(tmp_path / "s", answer):
        client = ActuatorClient(str(tmp_path / "s"), answer_s=dict.fromkeys(Subsystem, 0.1))
        failure = await client.execute(DescribeCpu())
        assert isinstance(failure, HardwareFailure)
        assert failure.reason is Reason.TIMEOUT
        silent = False
        assert await client.execute(DescribeCpu()) == ErrorReply(message="fresh")
        await client.close()


async def test_an_invalid_answer_is_a_failure(tmp_path):
    async def answer(reader, actuator):
        await reader.readline()
        actuator.write(b"hello\n")
        actuator.close()

    async with _scripted(tmp_path / "s", answer):
        client = ActuatorClient(str(tmp_path / "s"))
        failure = await client.execute(DescribeCpu())
        assert isinstance(failure, HardwareFailure)
        assert failure.reason is Reason.MALFORMED_REPLY
        await client.close()


async def test_a_closed_connection_is_a_failure(tmp_path):
    async def hang_up(_reader, actuator):
        actuator.close()

    async with _scripted(tmp_path / "s", hang_up):
        failure = await ActuatorClient(str(tmp_path / "s")).execute(DescribeCpu())
        assert isinstance(failure, HardwareFailure)
        assert failure.reason is Reason.UNREACHABLE


async def test_an_actuator_in_this_process_restores_everything_when_it_is_closed(actuator_settings, events, gpus):
    settings, machine = actuator_settings()
    actuator = InProcessActuator(HostSubsystems(settings, events, drivers=[gpus[0]]), stop_grace_s=5)
    assert isinstance(await actuator.execute(CAP), ControlOutcome)
    assert [machine.read(path) for path in machine.limits()] == [90_000_000] * 2
    await actuator.close()
    assert [machine.read(path) for path in machine.limits()] == [150_000_000] * 2


async def test_a_driver_that_hangs_in_this_process_costs_a_timeout(actuator_settings, events, gpus):
    settings, _ = actuator_settings()
    actuator = InProcessActuator(
        HostSubsystems(settings, events, drivers=[gpus[0]]), stop_grace_s=0, answer_s=dict.fromkeys(Subsystem, 2.0)
    )
    gpus[1].answering.clear()
    try:
        failure = await actuator.execute(ReadGpu())
        assert isinstance(failure, HardwareFailure)
        assert failure.reason is Reason.TIMEOUT
        assert isinstance(await actuator.execute(ReadCpu()), CpuReadings)
    finally:
        gpus[1].answering.set()
        await actuator.close()


async def test_a_part_is_given_the_time_that_it_needs(tmp_path):
    """The deadline of one subsystem does not end the wait for the other."""
    asked = asyncio.Event()

    async def answer_gpu_late(reader, actuator):
        while line := await reader.readline():
            if b"gpu" in line:
                await asked.wait()
                actuator.write(encode(ErrorReply(message="late")))
        actuator.close()

    async with _scripted(tmp_path / "s", answer_gpu_late):
        client = ActuatorClient(str(tmp_path / "s"), answer_s={Subsystem.CPU: 0.05, Subsystem.GPU: 30.0})
        gpu = asyncio.create_task(client.execute(ReadGpu()))
        failure = await client.execute(ReadCpu())
        assert isinstance(failure, HardwareFailure)
        assert failure.reason is Reason.TIMEOUT
        asked.set()
        assert await gpu == ErrorReply(message="late")
        await client.close()
