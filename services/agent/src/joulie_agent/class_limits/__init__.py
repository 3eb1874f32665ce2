"""Limits of this machine's GPUs by the class of their holders, shown and not set: docs/class-limits.md."""
