"""Workloads: pods with an arrival time and a piece of work, made up or read from a trace."""
