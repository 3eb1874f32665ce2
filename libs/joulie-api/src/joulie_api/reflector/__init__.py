"""A local copy of one resource, kept up to date by list and watch."""

from joulie_api.reflector.copies import LocalCopy, MappedCopy, stale_reasons
from joulie_api.reflector.driver import STALE_TOLERANCE_S, Handler, ListWatch, Reflector
from joulie_api.reflector.machine import Counters

__all__ = [
    "STALE_TOLERANCE_S",
    "Counters",
    "Handler",
    "ListWatch",
    "LocalCopy",
    "MappedCopy",
    "Reflector",
    "stale_reasons",
]
