"""Starts a service with one bulkhead patched away, to show that the campaign notices.

python -m tools.hostile.without BULKHEAD MODULE; called by `just hostile --without SERVICE:BULKHEAD`.
"""

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final, NoReturn

import msgspec
import pydantic

from joulie_api import decoding, json_slices
from joulie_api.errors import DecodeError
from joulie_api.failures import Failures
from joulie_api.reflector.machine import ReflectorMachine


def _replace(original: Callable[..., Any], replacement: Callable[..., Any]) -> None:
    """Replace a function wherever it was imported by name."""
    for name, module in list(sys.modules.items()):
        if not name.startswith("joulie_"):
            continue
        for attribute, value in list(vars(module).items()):
            if value is original:
                setattr(module, attribute, replacement)


def _decoding() -> None:
    """Take only what a decoder documents for a failure of the input."""

    def decode(decoder: Callable[[bytes], Any], raw: bytes, what: str) -> Any:
        try:
            return decoder(raw)
        except (msgspec.MsgspecError, pydantic.ValidationError) as error:
            raise DecodeError(f"not a {what}") from error

    _replace(decoding.decode, decode)


def _pages() -> None:
    """Do not cut a page of a list with an object that no decoder takes into its items."""

    def members(_raw: bytes) -> NoReturn:
        raise DecodeError("not cut")

    _replace(json_slices.members, members)


def _objects() -> None:
    """End a watch at an object that cannot be decoded."""

    def decode_object(machine: Any, _key: str, _version: str, raw: bytes) -> Any:
        return machine._read(raw)  # noqa: SLF001 - this is what is replaced

    ReflectorMachine._decode_object = decode_object  # type: ignore[method-assign]  # noqa: SLF001


def _containment() -> None:
    """End the process at a failure of the work on one subject, and have poison fail the work as a defect would.

    Without a defect nothing reaches this bulkhead: what is invalid is a value by then.
    """
    decode_or_refuse = decoding.decode

    def decode(decoder: Callable[[bytes], Any], raw: bytes, what: str) -> Any:
        try:
            return decode_or_refuse(decoder, raw, what)
        except DecodeError as error:
            raise RuntimeError("a planted defect") from error

    _replace(decode_or_refuse, decode)

    @contextmanager
    def contained(_failures: Failures, _work: str, **_subject: Any) -> Iterator[None]:
        yield

    def internal_error(_failures: Failures, _work: str, error: Exception, **_subject: Any) -> NoReturn:
        raise error

    Failures.contained = contained  # type: ignore[method-assign]
    Failures.internal_error = internal_error  # type: ignore[method-assign]


#: What can be removed, by name; each of any service.
BULKHEADS: Final[Mapping[str, Callable[[], None]]] = MappingProxyType(
    {"decoding": _decoding, "pages": _pages, "objects": _objects, "containment": _containment}
)


def main() -> None:
    """Patch, then run the service."""
    name, module = sys.argv[1:3]
    command = importlib.import_module(f"{module}.__main__")
    # Some commands import what they need when they are called.
    importlib.import_module(f"{module}.app")
    BULKHEADS[name]()
    sys.argv = [module]
    command.main()


if __name__ == "__main__":
    main()
