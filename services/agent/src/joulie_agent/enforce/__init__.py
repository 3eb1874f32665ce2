"""Enforcement: turns a node's target into caps and throttles, and into a report of what is in force."""
