"""Errors of a vendor's library, and the memory that its import leaves."""

import ctypes
from types import SimpleNamespace

from joulie_actuator.hardware.gpu.library import Extent, LibraryError, release_unused_memory
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.reasons import Reason


def test_an_error_has_its_failure_and_is_of_one_call_unless_it_is_said_otherwise():
    error = LibraryError(Reason.IO_ERROR, "busy")
    assert (error.failure, error.extent) == (HardwareFailure(Reason.IO_ERROR, "busy"), Extent.CALL)
    assert str(error) == "busy"
    assert LibraryError(Reason.DEVICE_LOST, "gone", Extent.DEVICE).extent is Extent.DEVICE


def test_all_that_the_c_library_does_not_use_is_returned_to_the_system(monkeypatch):
    kept = []
    loaded = []
    library = SimpleNamespace(malloc_trim=kept.append)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: loaded.append(name) or library)
    release_unused_memory()
    assert (loaded, kept) == ([None], [0])


def test_a_c_library_that_returns_its_memory_by_itself_is_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: SimpleNamespace())
    release_unused_memory()
