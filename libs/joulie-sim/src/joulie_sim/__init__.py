"""Simulated hardware and workload: physics, traces, HTTP backend, demo."""
