"""Enforcement: a node's target turned into caps and throttles, and into a report of what is in force."""
