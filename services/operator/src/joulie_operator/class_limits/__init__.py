"""Lifts limits by class while performance pods wait for GPUs: docs/class-limits.md."""
