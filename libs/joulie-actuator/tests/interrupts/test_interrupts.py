"""Moving interrupts on files as the kernel has them."""

import errno

import pytest

from joulie_actuator.hardware import interrupts
from joulie_actuator.hardware.interrupts import DEFAULT_KEY
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.knob_results import RestoreOutcome
from joulie_actuator.interrupts import DISCOVERY_INTERVAL_S
from joulie_actuator.protocol import Restore, Subsystem
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import InterruptsReport, RestoreReport
from joulie_testing.agent.interrupt_bench import open_bench

FREE = {4: "0-7", 9: "0-7", 24: "0-7", 25: "0-7", 26: "0-7"}


def test_interrupts_are_kept_away_from_isolated_cpus_those_of_later_devices_too(bench):
    report = bench.set(isolated="6-7")
    assert report == InterruptsReport(moved=4)
    assert bench.machine.all == FREE | {4: "0-5", 24: "0-5", 25: "0-5", 26: "0-5"}
    assert bench.machine.default == "0000003f"


def test_claims_and_sinks_get_the_interrupts_that_their_patterns_name(bench):
    report = bench.set(claims=[(("eth0-*", "4"), "2"), (("nvme0q1",), "3,5")], sinks="0-1")
    assert report.moved == 4
    assert bench.machine.all == FREE | {4: "2", 25: "2", 26: "3,5", 24: "0-1"}
    assert bench.machine.default == "00000003"


def test_only_controllable_interrupts_are_moved(bench):
    assert bench.set(controllable=("eth*", "IO-APIC"), isolated="7").moved == 3
    assert bench.machine.all == FREE | {4: "0-6", 24: "0-6", 25: "0-6"}
    assert bench.machine.default == "ff"
    assert bench.set(controllable=(), isolated="7").moved == 0
    assert bench.machine.all == FREE
    assert not bench.writer.managed


def test_the_same_request_writes_nothing_again(bench):
    bench.set(isolated="6-7")
    bench.machine.calls.written.clear()
    assert bench.set(isolated="6-7").moved == 4
    assert bench.machine.calls.written == []


def test_what_is_not_wanted_any_more_is_restored(bench):
    bench.machine.put("irq/24/smp_affinity_list", "5-7")
    bench.set(isolated="6-7", claims=[(("ttyS0",), "1")])
    assert bench.machine.cpus(24) == "5"
    bench.set(claims=[(("ttyS0",), "1")])
    assert bench.machine.all == FREE | {4: "1", 24: "5-7"}
    assert bench.writer.managed == {"interrupts/4/IO-APIC/4"}
    bench.set()
    assert bench.machine.all == FREE | {24: "5-7"}
    assert int(bench.machine.default, 16) == 0xFF
    assert not bench.writer.managed


def test_the_lease_ends_and_everything_is_restored(bench, clock):
    bench.set(isolated="0-3")
    clock.now += 61
    bench.executor.check()
    assert bench.machine.all == FREE
    assert int(bench.machine.default, 16) == 0xFF


def test_a_value_of_another_program_is_narrowed_and_is_what_is_restored(bench):
    bench.set(isolated="6-7")
    bench.machine.put("irq/25/smp_affinity_list", "3")  # irqbalance, away from the isolated CPUs
    bench.machine.put("irq/24/smp_affinity_list", "2,7")
    assert bench.set(isolated="6-7").moved == 3
    assert (bench.machine.cpus(25), bench.machine.cpus(24)) == ("3", "2")
    bench.executor.execute(Restore(subsystem=Subsystem.INTERRUPTS))
    assert bench.machine.all == FREE | {25: "3", 24: "2,7"}


def test_interrupts_that_the_kernel_does_not_let_move_are_counted_and_not_tried_again(bench):
    bench.machine.refuse(26)
    assert bench.set(isolated="7") == InterruptsReport(moved=3, fixed=1)
    del bench.machine.calls.refused["26/smp_affinity_list"]
    assert bench.set(isolated="7") == InterruptsReport(moved=3, fixed=1)
    assert bench.machine.cpus(26) == "0-7"
    assert "interrupts/26/PCI-MSIX-0000:02:00.0/0" not in bench.writer.managed


def test_a_write_that_fails_otherwise_is_reported_and_tried_again(bench):
    bench.machine.refuse(24, errno.ENOSPC)
    report = bench.set(isolated="7")
    assert (report.moved, report.fixed, report.failed) == (3, 0, 1)
    assert report.message.startswith("Overruled: 24/smp_affinity_list: ")
    bench.machine.calls.refused.clear()
    assert bench.set(isolated="7") == InterruptsReport(moved=4)


def test_an_interrupt_that_cannot_be_read_stays_as_it_is(bench):
    bench.set(isolated="7")
    bench.machine.put("irq/24/smp_affinity_list", "no list")
    report = bench.set()
    assert (report.failed, report.message[:16]) == (1, "MalformedReply: ")
    assert bench.machine.all == FREE | {24: "no list"}
    assert bench.writer.managed == {"interrupts/24/PCI-MSIX-0000:01:00.0/0"}


def test_an_interrupt_that_has_gone_is_forgotten_and_its_number_may_mean_another_one(bench, clock):
    bench.set(isolated="7")
    bench.machine.remove(24)
    bench.machine.remove(25)
    bench.machine.add(25, "PCI-MSIX-0000:03:00.0", 0, "eth1", cpus="0-1")
    clock.now += DISCOVERY_INTERVAL_S + 1
    assert bench.set(isolated="6-7") == InterruptsReport(moved=2)
    report = bench.executor.execute(Restore(subsystem=Subsystem.INTERRUPTS))
    assert report.left == ()
    assert bench.machine.all == {4: "0-7", 9: "0-7", 25: "0-1", 26: "0-7"}


def test_a_restore_forgets_interrupts_that_have_gone_and_no_others(bench):
    bench.set(isolated="7")
    bench.machine.remove(24)
    (bench.machine.root / "sys/kernel/irq/25/hwirq").unlink()  # there, and not known to be another one
    report = bench.executor.execute(Restore(subsystem=Subsystem.INTERRUPTS))
    gone = [knob.key for knob in report.knobs if knob.outcome is RestoreOutcome.GONE]
    assert gone == ["interrupts/24/PCI-MSIX-0000:01:00.0/0"]
    assert [knob.key for knob in report.left] == ["interrupts/25/PCI-MSIX-0000:01:00.0/1"]
    assert bench.writer.managed == {"interrupts/25/PCI-MSIX-0000:01:00.0/1"}


def test_without_a_list_of_interrupts_nothing_is_set_and_nothing_forgotten(bench, clock):
    bench.set(isolated="7")
    (bench.machine.root / "sys/kernel/irq").rename(bench.machine.root / "sys/kernel/away")
    clock.now += DISCOVERY_INTERVAL_S + 1
    report = bench.set(isolated="7")
    assert report.failure == HardwareFailure(Reason.NO_INTERFACE, "/sys/kernel/irq lists no interrupt")
    assert bench.executor.execute(Restore(subsystem=Subsystem.INTERRUPTS)).left
    assert len(bench.writer.managed) == 4
    assert DEFAULT_KEY not in bench.writer.managed  # its file needs no list


def test_without_the_cpus_that_are_online_nothing_is_set(bench):
    (bench.machine.root / "sys/devices/system/cpu/online").unlink()
    why = HardwareFailure(Reason.NO_INTERFACE, "the list of CPUs that are online cannot be read")
    assert bench.set(isolated="7") == InterruptsReport(failure=why)
    assert bench.machine.all == FREE


def test_where_nothing_may_be_written_the_reason_is_reported_and_nothing_is_set_or_restored(machine, events, clock):
    why = HardwareFailure(Reason.NO_JOURNAL, "the state directory is read-only")
    bench = open_bench(machine, why, events, clock)
    assert bench.set(isolated="7") == InterruptsReport(failure=why)
    assert bench.handler.restore(frozenset({DEFAULT_KEY})) == RestoreReport(knobs=())
    assert bench.machine.calls.written == []
    bench.executor.close()


def test_interrupts_of_a_new_device_are_found_after_the_interval(bench, clock):
    bench.set(isolated="7")
    bench.machine.add(27, "PCI-MSIX-0000:03:00.0", 0, "eth1")
    clock.now += DISCOVERY_INTERVAL_S
    assert bench.set(isolated="7").moved == 4
    assert bench.machine.cpus(27) == "0-7"
    clock.now += 0.5
    assert bench.set(isolated="7").moved == 5
    assert bench.machine.cpus(27) == "0-6"


def test_an_interrupt_that_cannot_be_written_since_it_has_gone_is_missed_once(bench):
    bench.set()
    bench.machine.remove(24)
    report = bench.set(isolated="7")
    assert (report.moved, report.failed) == (3, 1)
    assert bench.set(isolated="7") == InterruptsReport(moved=3)


def test_an_interrupt_that_the_kernel_does_not_let_move_is_counted_as_long_as_it_is_there(bench, clock):
    bench.machine.refuse(26)
    bench.set(isolated="7")
    bench.machine.calls.refused.clear()
    clock.now += DISCOVERY_INTERVAL_S + 1
    assert bench.set(isolated="7") == InterruptsReport(moved=3, fixed=1)
    assert bench.machine.cpus(26) == "0-7"
    bench.machine.remove(26)
    clock.now += DISCOVERY_INTERVAL_S + 1
    assert bench.set(isolated="7") == InterruptsReport(moved=3)


def test_interrupts_beyond_those_that_are_looked_at_are_counted_and_left_alone(bench, monkeypatch):
    monkeypatch.setattr(interrupts, "MOST_INTERRUPTS", 3)
    assert bench.set(isolated="7") == InterruptsReport(moved=2, left_out=2)
    assert bench.machine.all == FREE | {4: "0-6", 24: "0-6"}


def test_isolation_of_all_cpus_leaves_interrupts_where_they_are(bench):
    assert bench.set(isolated="0-7") == InterruptsReport()
    assert bench.machine.all == FREE


@pytest.mark.parametrize("mask", ["ffffffff,ffffffff", "00000001,00000000", "ff"])
def test_the_mask_of_later_interrupts_is_read_and_restored_in_the_form_of_the_kernel(bench, mask):
    bench.machine.put("sys/devices/system/cpu/online", "0-63")
    bench.machine.put("irq/default_smp_affinity", mask)
    bench.set(sinks="40")
    assert bench.machine.default == "00000100,00000000"
    bench.set()
    assert int(bench.machine.default.replace(",", ""), 16) == int(mask.replace(",", ""), 16)


def test_what_a_killed_process_has_moved_is_restored_by_the_next(bench, writer, successor):
    bench.set(isolated="6-7", claims=[(("4",), "1")])
    writer._journal.close()  # the kernel releases the lock of a killed process
    following = successor()
    following.executor.check()
    assert following.machine.all == FREE
    assert int(following.machine.default, 16) == 0xFF
    assert not following.writer.managed
