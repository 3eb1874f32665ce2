"""Placement of containers on the CPUs and memory nodes of one node: policies and what they are built from."""
