"""A seccomp filter that takes network access from the actuator.

Guarantees that this process, its present and future threads and its children create sockets of two families only: UNIX,
for the controller, and netlink, which libraries of GPU drivers may use to query the kernel. The filter cannot be
removed and needs no capability. io_uring, which creates sockets without the filtered system calls, and system calls of
another architecture, whose numbers differ, are denied too. A denied call fails with EPERM.

Not guaranteed: anything about sockets that are open already or that a peer passes over a UNIX socket; about who listens
on a UNIX socket, those without a path included, which belong to the network of the pod; about privileges that bypass
any filter, such as those of a privileged container. Only sockets and io_uring are filtered.
"""

import ctypes
import errno
import os
import socket
import struct
from dataclasses import dataclass
from typing import Final

#: The families that `socket(2)` still allows. Netlink changes nothing in a network without CAP_NET_ADMIN.
FAMILIES: Final = (socket.AF_UNIX, socket.AF_NETLINK)


@dataclass(frozen=True, slots=True)
class Abi:
    """Numbers of one architecture.

    Source: the kernel's uapi headers: `AUDIT_ARCH_*` of linux/audit.h; `__NR_*` of asm/unistd_64.h on x86, and of
    asm-generic/unistd.h on arm64.
    """

    audit_arch: int
    socket: int
    socketpair: int
    seccomp: int
    io_uring_setup: int


ABIS: Final = {
    "x86_64": Abi(audit_arch=0xC000003E, socket=41, socketpair=53, seccomp=317, io_uring_setup=425),
    "aarch64": Abi(audit_arch=0xC00000B7, socket=198, socketpair=199, seccomp=277, io_uring_setup=425),
}
_X32_SYSCALL_BIT: Final = 0x40000000  # asm/unistd.h of x86; no number of arm64 has it

# linux/prctl.h, linux/seccomp.h
_PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP_SET_MODE_FILTER: Final = 1
_SECCOMP_FILTER_FLAG_TSYNC: Final = 1
_ALLOW: Final = 0x7FFF0000  # SECCOMP_RET_ALLOW
_DENY: Final = 0x00050000 | errno.EPERM  # SECCOMP_RET_ERRNO
# struct seccomp_data. The kernel too uses only the lower half of the argument for the family, an int; both machines
# have it first.
_NUMBER_AT, _ARCH_AT, _FAMILY_AT = 0, 4, 16
# linux/bpf_common.h
_LOAD_WORD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_JUMP_IF_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_JUMP_IF_ANY_BIT: Final = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN: Final = 0x06  # BPF_RET | BPF_K


class Program(ctypes.Structure):
    """`struct sock_fprog`: how many instructions, and where."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def confine() -> str | None:
    """Drop network access for good; return None where that is done, otherwise why it is not."""
    machine = os.uname().machine
    abi = ABIS.get(machine)
    if abi is None or struct.calcsize("P") != struct.calcsize("Q"):
        return f"no filter for {struct.calcsize('P') * 8}-bit processes on {machine}"
    libc = ctypes.CDLL(None, use_errno=True)
    none = ctypes.c_ulong(0)
    # Without it only CAP_SYS_ADMIN may install a filter.
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), none, none, none) != 0:
        return f"no_new_privs: {os.strerror(ctypes.get_errno())}"
    instructions = network_filter(abi)
    program = Program(len(instructions) // struct.calcsize("HBBI"), instructions)
    libc.syscall.restype = ctypes.c_long
    # TSYNC: libraries may have started threads when they were imported.
    synced = libc.syscall(
        ctypes.c_long(abi.seccomp),
        ctypes.c_ulong(_SECCOMP_SET_MODE_FILTER),
        ctypes.c_ulong(_SECCOMP_FILTER_FLAG_TSYNC),
        ctypes.byref(program),
    )
    if synced < 0:
        return f"seccomp: {os.strerror(ctypes.get_errno())}"
    return f"seccomp: thread {synced} has a filter of its own" if synced else None


def network_filter(abi: Abi) -> bytes:
    """Return the filter as an array of `struct sock_filter`."""
    return b"".join(
        (
            _instruction(_LOAD_WORD, _ARCH_AT),
            _instruction(_JUMP_IF_EQUAL, abi.audit_arch, skip_if=1),
            _instruction(_RETURN, _DENY),
            _instruction(_LOAD_WORD, _NUMBER_AT),
            _instruction(_JUMP_IF_ANY_BIT, _X32_SYSCALL_BIT, skip_if_not=1),
            _instruction(_RETURN, _DENY),
            _instruction(_JUMP_IF_EQUAL, abi.io_uring_setup, skip_if_not=1),
            _instruction(_RETURN, _DENY),
            _instruction(_JUMP_IF_EQUAL, abi.socket, skip_if=2),
            # TIPC, which reaches other machines, has pairs too.
            _instruction(_JUMP_IF_EQUAL, abi.socketpair, skip_if=1),
            _instruction(_RETURN, _ALLOW),
            _instruction(_LOAD_WORD, _FAMILY_AT),
            *(
                _instruction(_JUMP_IF_EQUAL, family, skip_if_not=1) + _instruction(_RETURN, _ALLOW)
                for family in FAMILIES
            ),
            _instruction(_RETURN, _DENY),
        )
    )


def _instruction(code: int, operand: int, *, skip_if: int = 0, skip_if_not: int = 0) -> bytes:
    return struct.pack("HBBI", code, skip_if, skip_if_not, operand)
