"""Recordings of the in-process API server."""

import asyncio
import contextlib

import pytest

from joulie_sim.recording import recorder as recorder_module
from joulie_sim.recording.files import RecordingFiles
from joulie_sim.recording.recorder import ClusterRecorder

START_S = 1_700_000_000.0


@pytest.fixture
def clock():
    """Seconds since the epoch, which a test moves on."""

    class Clock:
        now_s = START_S

        def __call__(self):
            return self.now_s

    return Clock()


@pytest.fixture
def record(fake_client, tmp_path, clock, monkeypatch):
    """Return a context manager that records into `tmp_path / "recording"` and ends at its end."""

    monkeypatch.setattr(recorder_module, "_TICK_S", 0.05)

    @contextlib.asynccontextmanager
    async def recording(**options):
        stop = asyncio.Event()
        seen = asyncio.Condition()
        begun = False

        async def notify():
            async with seen:
                seen.notify_all()

        notifying = set()

        def on_progress(_progress):
            nonlocal begun
            begun = True
            wake()

        def wake(*_arguments):
            task = asyncio.ensure_future(notify())
            notifying.add(task)
            task.add_done_callback(notifying.discard)

        with RecordingFiles(tmp_path / "recording") as files:
            recorder = ClusterRecorder(fake_client, files, clock=clock, **options)
            running = asyncio.create_task(recorder.run(stop, on_progress=on_progress))
            running.add_done_callback(wake)

            async def until(condition):
                """Wait until the recorder's progress satisfies a condition."""
                async with asyncio.timeout(20.0), seen:
                    await seen.wait_for(lambda: running.done() or condition(recorder.progress()))
                assert not running.done() or running.result()

            recorder.until = until
            try:
                await until(lambda progress: begun)
                yield recorder
            finally:
                stop.set()
                await running

    return recording
