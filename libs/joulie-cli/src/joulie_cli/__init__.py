"""`kubectl joulie`: shows what Joulie does in a cluster, and why. Reads only."""

from importlib.metadata import version

VERSION = version("joulie-cli")
