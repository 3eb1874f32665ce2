"""A local, always catching-up copy of one resource: list, watch, and what to do when either goes wrong."""

from joulie_api.reflector.driver import Handler, ListWatch, Reflector
from joulie_api.reflector.machine import Counters

__all__ = ["Counters", "Handler", "ListWatch", "Reflector"]
