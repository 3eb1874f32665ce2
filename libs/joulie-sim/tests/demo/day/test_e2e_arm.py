"""One arm of a short day on a real control plane: several nodes sleep and wake by themselves under real pods."""

import pytest

from joulie_devcluster.control_plane.nodes import CpuClass, NodeClass
from joulie_devcluster.host.progress import SilentReporter
from joulie_sim.demo.day.arm import DayArm, DayPlan
from joulie_sim.demo.day.scale import DAY_S, day_scale
from joulie_sim.demo.day.workload import day_items
from joulie_sim.demo.record import energy_kwh
from joulie_sim.demo.sleeping.power import Power

pytestmark = [pytest.mark.e2e, pytest.mark.long]

_NODES = 6
_CLASSES = (NodeClass(name="epyc", count=_NODES, cpu=CpuClass(model="AMD-EPYC-9654", cores=192), memory="768Gi"),)


async def test_nodes_sleep_by_night_and_wake_by_day_and_no_pod_is_lost(tmp_path):
    scale = day_scale(40.0)
    items = day_items(_CLASSES, pods=80, seed=1)
    plan = DayPlan(title="with sleep", classes=_CLASSES, items=items, scale=scale, spare=1)
    shown = []
    day = await DayArm(plan, reporter=SilentReporter(), show=shown.append).run(tmp_path)

    assert day.power_offs >= 1
    assert len(day.wakes_s) >= 1
    # Half of a zone at most.
    assert max(sample.by_power[Power.ASLEEP].nodes for sample in day.samples) in range(1, _NODES // 2 + 1)
    assert {name: pod.finished_s is not None for name, pod in day.pods.items()} == {item.name: True for item in items}
    assert day.ended_s is not None
    assert shown == day.samples
    for sample in day.samples:
        assert sum(found.nodes for found in sample.by_power.values()) == _NODES
        asleep = sample.by_power[Power.ASLEEP]
        assert asleep.watts == pytest.approx(15.0 * asleep.nodes)
    energy = energy_kwh(day.samples, day.samples[-1].at_s)
    assert 0.0 < energy[Power.ASLEEP] < energy[Power.AWAKE]
    assert energy[Power.WAKING] > 0.0
    assert day.samples[-1].at_s >= DAY_S
