"""Discovers node hardware, enforces power targets and reports what happened."""
