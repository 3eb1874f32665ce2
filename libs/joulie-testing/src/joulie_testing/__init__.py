"""Test doubles that are larger than a helper: an API server in process, a kernel's files, GPUs, a container runtime.

No image and no wheel of a service contains them, and no other package imports them: only tests and benchmarks do.
"""
