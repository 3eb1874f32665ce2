"""Workloads: pods with arrival times and work, generated or from a trace."""
