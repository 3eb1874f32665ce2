"""Energy counters from the actuator's replies."""

import asyncio

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.power_meter import ZoneReading
from joulie_actuator.protocol import ReadCpu, ReadGpu
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import CpuReadings, GpuPowerReading, GpuReadings
from joulie_agent.energy.counters import read_counters
from joulie_core.attribution.packages import ZoneCounter
from joulie_core.control.energy_meter import EnergyCounter

ZONES = (
    ZoneReading("package-0", 5_000_000, range_uj=262_143_328_850, max_watts=205.0),
    ZoneReading("package-1", failure=HardwareFailure(Reason.NOT_PERMITTED, "root only")),
)
CPU = CpuReadings(revision=1, zones=ZONES, throttle_pct=0.0, overwritten={})
GPUS = (GpuPowerReading(uuid="a", energy_mj=7_000), GpuPowerReading(uuid="b"))
GPU = GpuReadings(revision=1, gpus=GPUS, failures={}, overwritten={})


class Scripted:
    """An actuator with one reply for each request."""

    def __init__(self, cpu=CPU, gpu=GPU, gpu_late_s=0.0):
        self.cpu, self.gpu, self.gpu_late_s = cpu, gpu, gpu_late_s
        self.requests = []

    async def execute(self, request):
        self.requests.append(request)
        if isinstance(request, ReadCpu):
            return self.cpu
        await asyncio.sleep(self.gpu_late_s)
        return self.gpu


async def test_counters_are_read_alone_and_one_that_is_missing_is_none():
    actuator = Scripted()
    found = await read_counters(actuator)
    assert found.zones == {
        "package-0": ZoneCounter(5_000_000, EnergyCounter(262_143_328_850, 205.0)),
        "package-1": None,
    }
    assert found.gpus_mj == {"a": 7_000, "b": None}
    assert set(actuator.requests) == {ReadCpu(power_only=True), ReadGpu(energy_only=True)}


async def test_an_actuator_that_does_not_answer_leaves_all_unknown():
    silent = HardwareFailure(Reason.TIMEOUT, "no answer")
    found = await read_counters(Scripted(silent, silent))
    assert (found.zones, found.gpus_mj) == (None, None)


async def test_counters_that_come_late_are_not_used_and_those_in_time_are():
    found = await read_counters(Scripted(gpu_late_s=1.5), longest_s=1.0)
    assert found.zones is not None
    assert found.gpus_mj is None
