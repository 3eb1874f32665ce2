"""Executables that a cluster runs: pinned versions, lookup, downloads, and builds from source."""
