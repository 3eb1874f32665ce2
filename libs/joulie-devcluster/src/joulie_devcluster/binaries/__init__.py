"""Executables that a cluster runs: pinned versions, lookup, and builds from source."""
