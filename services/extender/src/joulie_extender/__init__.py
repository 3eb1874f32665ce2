"""Scheduler extender: filters and scores nodes for kube-scheduler from watched twins."""

from importlib.metadata import version

VERSION = version("joulie-extender")
