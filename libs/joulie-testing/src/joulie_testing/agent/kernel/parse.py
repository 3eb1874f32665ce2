"""Text that the kernel takes for a number. Source: Linux, lib/kstrtox.c."""

import errno
import re
from collections.abc import Iterable
from typing import Final

_UNSIGNED: Final = re.compile(r"\+?(0[xX][0-9a-fA-F]+|[0-9]+)\n?")
_DECIMAL: Final = re.compile(r"[+]?[0-9]+\n?")
_TRUE: Final = frozenset("1yYtT")
_FALSE: Final = frozenset("0nNfF")


def unsigned(text: str, *, bits: int = 64) -> int:
    """Read as kstrtoul with base 0 does: hexadecimal and octal by prefix, one newline at the end."""
    if not _UNSIGNED.fullmatch(text):
        raise OSError(errno.EINVAL, "Invalid argument")
    digits = text.strip().removeprefix("+")
    octal = len(digits) > 1 and digits.startswith("0") and digits[1] not in "xX"
    try:
        value = int(digits, 8) if octal else int(digits, 0)
    except ValueError as error:
        raise OSError(errno.EINVAL, "Invalid argument") from error
    return _within(value, bits)


def decimal(text: str, *, bits: int = 64) -> int:
    """Read as kstrtoull with base 10 does."""
    if not _DECIMAL.fullmatch(text):
        raise OSError(errno.EINVAL, "Invalid argument")
    return _within(int(text), bits)


def flag(text: str) -> bool:
    """Read as kstrtobool does, which uses the first character, or `on` and `off`."""
    if text[:1] in _TRUE or text[:2].lower() == "on":
        return True
    if text[:1] in _FALSE or text[:2].lower() == "of":
        return False
    raise OSError(errno.EINVAL, "Invalid argument")


def cpu_list(numbers: Iterable[int]) -> str:
    """Write CPUs as the kernel does: `0-3,8`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _within(value: int, bits: int) -> int:
    if value >= 1 << bits:
        raise OSError(errno.ERANGE, "Numerical result out of range")
    return value
