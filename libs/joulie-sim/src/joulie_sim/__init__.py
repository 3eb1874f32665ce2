"""Simulation of hardware and workloads: physics, traces, HTTP backend, demo."""
