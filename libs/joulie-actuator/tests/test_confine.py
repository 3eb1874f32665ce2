"""The filter on the running kernel, each time in a process of its own since it cannot be undone; and by simulation."""

import errno
import json
import os
import platform
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from joulie_actuator import blocking_client
from joulie_actuator.confine import ABIS, network_filter
from joulie_actuator.protocol import DescribeCpu
from joulie_actuator.replies import CpuDescription

#: What the programs below have at hand.
PRELUDE = """
import ctypes, errno, os, socket, struct, subprocess, sys, threading
from joulie_actuator import confine as module
from joulie_actuator.confine import confine

libc = ctypes.CDLL(None, use_errno=True)
abi = module.ABIS.get(os.uname().machine)

def outcome(act):
    try:
        act()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "works"

def make(family):
    return outcome(lambda: socket.socket(family, socket.SOCK_DGRAM).close())

def number(number, *arguments):
    if libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)) < 0:
        return errno.errorcode[ctypes.get_errno()]
    return "works"

def refuse_seccomp():
    "As a kernel without it: ENOSYS for every call of seccomp(2)."
    one = module._instruction
    filter = b"".join((
        one(module._LOAD_WORD, 0), one(module._JUMP_IF_EQUAL, abi.seccomp, skip_if_not=1),
        one(module._RETURN, 0x00050000 | errno.ENOSYS), one(module._RETURN, module._ALLOW)))
    zero = ctypes.c_ulong(0)
    assert libc.prctl(38, ctypes.c_ulong(1), zero, zero, zero) == 0
    program = module.Program(len(filter) // 8, filter)
    assert libc.syscall(ctypes.c_long(abi.seccomp), ctypes.c_ulong(1), zero, ctypes.byref(program)) == 0
"""
native = pytest.mark.skipif(platform.machine() not in ABIS, reason="no filter is known for this architecture")


def output_of(program):
    """What a program prints, as words."""
    ran = subprocess.run(
        [sys.executable, "-c", PRELUDE + program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.split()


@native
def test_sockets_of_a_network_are_refused_and_those_of_the_machine_work():
    before_and_after = """
families = (socket.AF_INET, socket.AF_INET6, socket.AF_PACKET, socket.AF_VSOCK, socket.AF_UNIX, socket.AF_NETLINK)
print(make(socket.AF_INET))
assert confine() is None
print(*map(make, families))
"""
    assert output_of(before_and_after) == ["works", *["EPERM"] * 4, "works", "works"]


@native
def test_it_needs_no_capability_and_the_kernel_confirms_it():
    assert output_of("""
if os.getuid() == 0:
    os.setresuid(65534, 65534, 65534)
assert confine() is None
fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(fields["CapEff"], 16), fields["NoNewPrivs"], fields["Seccomp"], make(socket.AF_INET))
""") == ["0", "1", "2", "EPERM"]


@native
def test_the_upper_half_of_the_family_is_ignored():
    assert output_of("""
assert confine() is None
print(number(abi.socket, socket.AF_INET | 1 << 32, socket.SOCK_DGRAM, 0))
print(number(abi.socket, socket.AF_UNIX | 1 << 32, socket.SOCK_DGRAM, 0))
""") == ["EPERM", "works"]


@native
def test_unix_sockets_carry_bytes_and_netlink_answers():
    assert output_of("""
assert confine() is None
left, right = socket.socketpair()
left.send(b"bytes")
print(right.recv(9).decode())
print(outcome(lambda: socket.socketpair(30)))  # AF_TIPC
print("lo" in {name for _, name in socket.if_nameindex()})
""") == ["bytes", "EPERM", "True"]


@native
def test_io_uring_is_refused():
    assert output_of("assert confine() is None; print(number(abi.io_uring_setup, 1, 0))") == ["EPERM"]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the system calls of i386 and x32 exist on x86-64 only")
def test_system_calls_by_the_numbers_of_32_bit_and_x32_are_refused():
    assert (
        output_of("""
import mmap
code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("b814000000 cd80 c3"))  # mov eax, 20 (getpid of i386); int 0x80; ret
getpid_32 = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
assert confine() is None
print(errno.errorcode[-getpid_32()], number(0x40000000 | 39), number(0x40000000 | abi.socket, 2, 2, 0))
""")
        == ["EPERM"] * 3
    )


@native
def test_threads_that_run_already_are_confined_and_so_are_later_ones():
    assert output_of("""
running, confined = threading.Event(), threading.Event()
seen = []
def earlier():
    seen.append(make(socket.AF_INET))
    running.set()
    confined.wait()
    seen.append(make(socket.AF_INET))
first = threading.Thread(target=earlier)
first.start()
running.wait()
assert confine() is None
confined.set()
first.join()
later = threading.Thread(target=lambda: seen.extend([make(socket.AF_INET), make(socket.AF_UNIX)]))
later.start()
later.join()
print(*seen)
""") == ["works", "EPERM", "EPERM", "works"]


@native
def test_a_child_is_confined_whatever_it_executes():
    child = "import socket; socket.socket()"
    assert output_of(f"""
assert confine() is None
print("PermissionError" in subprocess.run([sys.executable, "-c", {child!r}], stderr=subprocess.PIPE, text=True).stderr)
""") == ["True"]


@native
def test_confining_twice_is_confining():
    assert output_of("print(confine(), confine(), make(socket.AF_INET))") == ["None", "None", "EPERM"]


@pytest.mark.parametrize("machine", ["riscv64", "aarch64_be", "i686"])
def test_an_unknown_machine_is_a_reason_and_leaves_the_process_as_it_is(machine):
    assert output_of(f"""
from types import SimpleNamespace
module.os = SimpleNamespace(uname=lambda: SimpleNamespace(machine={machine!r}))
print(confine())
print(make(socket.AF_INET))
""") == [*f"no filter for {struct.calcsize('P') * 8}-bit processes on {machine}".split(), "works"]


@native
def test_a_kernel_without_seccomp_is_a_reason():
    assert output_of("refuse_seccomp(); print(confine()); print(make(socket.AF_INET))") == [
        *f"seccomp: {os.strerror(errno.ENOSYS)}".split(),
        "works",
    ]


@native
def test_a_thread_that_cannot_be_confined_is_a_reason():
    words = output_of("""
ready, over = threading.Event(), threading.Event()
def other():
    refuse_seccomp()
    ready.set()
    over.wait()
thread = threading.Thread(target=other)
thread.start()
ready.wait()
print(confine())
over.set()
thread.join()
""")
    assert (words[:2], words[3:]) == (["seccomp:", "thread"], ["has", "a", "filter", "of", "its", "own"])


def returned(program, number, arch, family=0):
    """What the kernel would do: an errno, or 0 for a system call that is allowed."""
    data = struct.pack("=iIQQ", number, arch, 0, family)
    accumulator, at = 0, 0
    while True:
        code, skip_if, skip_if_not, operand = struct.unpack_from("HBBI", program, at)
        at += 8
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", data, operand)
            case 0x15:
                at += 8 * (skip_if if accumulator == operand else skip_if_not)
            case 0x45:
                at += 8 * (skip_if if accumulator & operand else skip_if_not)
            case 0x06:
                return 0 if operand == 0x7FFF0000 else operand & 0xFFFF


# Numbers as the architectures' tables have them: socket and socketpair, and connect for any other.
@pytest.mark.parametrize(
    ("machine", "arch", "sockets", "other"),
    [("x86_64", 0xC000003E, (41, 53), 42), ("aarch64", 0xC00000B7, (198, 199), 203)],
)
def test_the_filter_of_each_architecture_decides_alike(machine, arch, sockets, other):
    program = network_filter(ABIS[machine])
    for number in sockets:
        allowed = {family for family in range(64) if returned(program, number, arch, family) == 0}
        assert allowed == {socket.AF_UNIX, socket.AF_NETLINK}
    assert returned(program, 425, arch) == errno.EPERM
    assert returned(program, other, arch) == 0
    assert returned(program, 0x40000000 | other, arch) == errno.EPERM
    assert returned(program, other, 0x40000003) == errno.EPERM  # AUDIT_ARCH_I386


@pytest.fixture
def start_actuator(actuator_settings, actuator_environment):
    """Start the real process, after a program that may run in it before; returns it and its lines until it listens."""
    settings, _ = actuator_settings()
    env = os.environ | actuator_environment(settings)
    started = []

    def start(before=""):
        program = (
            f"{before}\nimport sys; from joulie_actuator.__main__ import main; sys.argv[1:] = ['actuator']; main()"
        )
        process = subprocess.Popen([sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, text=True)
        started.append(process)
        lines = []
        while not lines or lines[-1]["event"] != "listening":
            lines.append(json.loads(process.stdout.readline()))
        assert isinstance(blocking_client.request(settings.actuator_socket, DescribeCpu(), 30), CpuDescription)
        return process, lines

    yield start
    for process in started:
        process.kill()
        process.communicate()


def protection(pid):
    """Of each thread of a process: no new privileges, mode of seccomp, and filters above those of our own process."""
    ours = status(Path("/proc/self/status"))
    threads = [status(path) for path in Path(f"/proc/{pid}/task").glob("*/status")]
    return {
        (of["NoNewPrivs"], of["Seccomp"], int(of["Seccomp_filters"]) - int(ours["Seccomp_filters"])) for of in threads
    }


def status(path):
    return dict(line.split(":\t") for line in path.read_text().splitlines() if ":\t" in line)


@native
def test_the_actuator_serves_with_every_thread_confined(start_actuator):
    process, lines = start_actuator()
    assert protection(process.pid) == {("1", "2", 1)}
    assert len(list(Path(f"/proc/{process.pid}/task").iterdir())) > 1
    assert (lines[0]["event"], lines[0]["sockets"]) == ("network closed", ["AF_UNIX", "AF_NETLINK"])


@native
def test_an_actuator_whose_kernel_cannot_confine_serves_and_warns_once(start_actuator):
    _, lines = start_actuator(before=PRELUDE + "refuse_seccomp()")
    (warned,) = (line for line in lines if line["level"] != "info")
    assert (warned["event"], warned["level"]) == ("network not closed", "warning")
    assert warned["error"] == f"seccomp: {os.strerror(errno.ENOSYS)}"
