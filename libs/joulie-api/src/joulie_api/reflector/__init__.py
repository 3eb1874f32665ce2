"""A local, always catching-up copy of one resource: list, watch, and what to do when either goes wrong."""

from joulie_api.reflector.driver import STALE_TOLERANCE_S, Handler, ListWatch, Reflector
from joulie_api.reflector.machine import Counters

__all__ = ["STALE_TOLERANCE_S", "Counters", "Handler", "ListWatch", "Reflector"]
