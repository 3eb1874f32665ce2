"""One file of sysfs: values, and a failure with its reason for each way in which the kernel says no."""

import errno
import os
import re
from pathlib import Path

import pytest

from joulie_actuator.hardware.knob import HardwareFailure, KnobKind, KnobLimits
from joulie_actuator.hardware.sysfs import SysfsKnob, SysfsTree, natural, parse_cpu_list
from joulie_actuator.reasons import Reason
from joulie_core.containers.idset import HIGHEST_ID


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "sys").mkdir()
    return SysfsTree(tmp_path / "sys")


def put(tree, path, text, mode=0o644):
    file = tree.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)


def reason(answer):
    assert isinstance(answer, HardwareFailure)
    assert answer.message
    return answer.reason


def test_an_integer_is_read_without_its_line_end(tree):
    put(tree, "a/limit", "150000000\n")
    assert tree.read_int("a/limit") == 150_000_000


def test_only_the_first_line_counts(tree):
    put(tree, "limit", "90000\n0\n")
    assert tree.read_int("limit") == 90_000


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"<unsupported>\n", "'<unsupported>'"),
        (b"", "''"),
        (b"\n", "''"),
        (b" 1.5 \n", "'1.5'"),
        (b"\xff1\n", "'\N{REPLACEMENT CHARACTER}1'"),
        (b"x" * 41, f"'{'x' * 40}'"),
    ],
)
def test_what_is_no_integer_is_a_malformed_reply_with_the_begin_of_what_was_read(tree, content, shown):
    put(tree, "freq", "")
    (tree.root / "freq").write_bytes(content)
    assert tree.read_int("freq") == HardwareFailure(Reason.MALFORMED_REPLY, f"freq holds {shown}, not an integer")


def test_an_attribute_is_read_up_to_a_page(tree):
    put(tree, "list", "x" * 5000)
    assert tree.read_text("list") == "x" * 4096


@pytest.mark.parametrize(("text", "known"), [("1\n", 1), ("0\n", None), ("-1\n", None), ("none\n", None)])
def test_only_what_is_positive_is_known(tree, text, known):
    put(tree, "max", text)
    assert tree.read_known("max") == known
    assert tree.read_known("absent") is None


def test_an_absent_file_is_no_interface(tree):
    absent = HardwareFailure(Reason.NO_INTERFACE, "class/powercap: No such file or directory")
    assert (tree.read_int("class/powercap"), tree.write_int("class/powercap", 1)) == (absent, absent)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (errno.ENODATA, Reason.NO_INTERFACE),
        (errno.EINVAL, Reason.NO_INTERFACE),
        (errno.EBUSY, Reason.NO_DEVICE),
        (errno.EIO, Reason.IO_ERROR),
        (errno.ENXIO, Reason.DEVICE_LOST),
        (errno.ETIMEDOUT, Reason.TIMEOUT),
    ],
)
def test_a_read_that_the_driver_fails_has_its_reason(tree, monkeypatch, code, expected):
    put(tree, "limit", "1\n")
    monkeypatch.setattr(os, "read", raising(code))
    assert tree.read_int("limit") == HardwareFailure(expected, f"limit: {os.strerror(code)}")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (errno.ENODATA, Reason.FIRMWARE_LOCKED),
        (errno.EACCES, Reason.FIRMWARE_LOCKED),
        (errno.EINVAL, Reason.OUT_OF_RANGE),
        (errno.ENOSYS, Reason.NO_INTERFACE),
        (errno.ENOSPC, Reason.OVERRULED),
        (errno.EBUSY, Reason.IO_ERROR),
        (errno.ENODEV, Reason.DEVICE_LOST),
    ],
)
def test_a_write_that_the_driver_declines_has_its_reason(tree, monkeypatch, code, expected):
    put(tree, "limit", "1\n")
    monkeypatch.setattr(os, "write", raising(code))
    assert tree.write_int("limit", 2) == HardwareFailure(expected, f"limit: {os.strerror(code)}")


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_file_that_may_not_be_opened_is_not_permitted(tree, monkeypatch, code):
    put(tree, "limit", "1\n")
    monkeypatch.setattr(os, "open", raising(code))
    assert reason(tree.read_int("limit")) is Reason.NOT_PERMITTED
    assert reason(tree.write_int("limit", 2)) is Reason.NOT_PERMITTED
    assert reason(tree.probe_write("limit")) is Reason.NOT_PERMITTED


@pytest.mark.parametrize(("mode", "written"), [(0o444, False), (0o555, False), (0o644, True), (0o464, True)])
def test_a_file_without_a_write_bit_is_not_written_even_by_root(tree, mode, written):
    put(tree, "limit", "1\n", mode)
    assert tree.write_int("limit", 2) == (
        None if written else HardwareFailure(Reason.NOT_PERMITTED, "limit: read-only")
    )
    assert tree.read_int("limit") == (2 if written else 1)


def test_a_link_out_of_the_tree_is_not_written(tree, tmp_path):
    (tmp_path / "elsewhere").write_text("1\n")
    (tree.root / "limit").symlink_to("../elsewhere")
    assert tree.write_int("limit", 2) == HardwareFailure(Reason.NO_INTERFACE, f"limit leads out of {tmp_path / 'sys'}")
    assert (tmp_path / "elsewhere").read_text() == "1\n"


def test_probing_changes_nothing(tree):
    put(tree, "limit", "1\n")
    assert tree.probe_write("limit") is None
    assert tree.read_int("limit") == 1


def test_a_shorter_value_replaces_a_longer_one(tree):
    put(tree, "limit", "2400000\n")
    assert tree.write_int("limit", 900_000) is None
    assert tree.read_int("limit") == 900_000
    assert (tree.root / "limit").read_text() == "900000\n\n", "one line is written and nothing is cut off"


def test_no_file_handle_is_left_open(tree, monkeypatch):
    put(tree, "limit", "1\n", 0o644)
    before = open_files()
    for _ in range(20):
        tree.read_int("limit")
        tree.write_int("limit", 2)
        tree.probe_write("limit")
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", raising(errno.EIO))
        tree.write_int("limit", 3)
    assert open_files() == before


def test_names_are_in_natural_order_and_match_as_a_whole(tree):
    for name in ("policy10", "policy2", "policy0", "policies", "xpolicy1"):
        put(tree, f"cpufreq/{name}/x", "1")
    assert tree.names("cpufreq", re.compile(r"policy\d+")) == ("policy0", "policy2", "policy10")
    assert tree.names("absent", re.compile(".*")) == ()


def test_natural_order_of_nested_numbers():
    assert sorted(["b:1:10", "b:1:2", "b:0", "a"], key=natural) == ["a", "b:0", "b:1:2", "b:1:10"]


def test_two_paths_to_one_directory_are_the_same_place(tree):
    put(tree, "devices/virtual/zone/name", "x")
    (tree.root / "class").mkdir()
    (tree.root / "class/zone").symlink_to("../devices/virtual/zone")
    assert tree.real("class/zone") == "devices/virtual/zone" == tree.real("devices/virtual/zone")


def test_a_tree_behind_a_link_is_below_its_root(tree, tmp_path):
    put(tree, "zone/limit", "1\n")
    (tmp_path / "host-sys").symlink_to("sys")
    linked = SysfsTree(tmp_path / "host-sys")
    assert linked.real("zone/limit") == "zone/limit"
    assert (linked.write_int("zone/limit", 2), tree.read_int("zone/limit")) == (None, 2)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3,8", (0, 1, 2, 3, 8)),
        ("0 1 2", (0, 1, 2)),
        ("", ()),
        ("5", (5,)),
        ("1,x,3-,2-2", (1, 2)),
        ("4,0-1", (0, 1, 4)),
        (f"{HIGHEST_ID},{HIGHEST_ID + 1},7-{HIGHEST_ID + 1}", (HIGHEST_ID,)),
    ],
)
def test_lists_of_cpus(text, cpus):
    assert parse_cpu_list(text) == cpus


def test_a_knob_writes_and_answers_what_was_read_back(tree):
    put(tree, "zone/limit", "150\n")
    knob = SysfsKnob(tree, "zone/limit", "rapl/zone/limit", "uW", KnobLimits(10, 200))
    assert knob.read() == 150
    assert knob.write(100) == 100
    assert (knob.probe_write(), knob.kind) == (None, KnobKind.LIMIT)


def test_a_knob_whose_file_has_gone_refuses(tree):
    knob = SysfsKnob(tree, "zone/limit", "rapl/zone/limit", "uW", KnobLimits(10, 200))
    assert reason(knob.read()) is Reason.NO_INTERFACE
    assert reason(knob.write(100)) is Reason.NO_INTERFACE


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def raising(code):
    def fail(*_args, **_kwargs):
        raise OSError(code, os.strerror(code))

    return fail
