"""Workloads: pods with arrival time and work, generated or read from a trace."""
