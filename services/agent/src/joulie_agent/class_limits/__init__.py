"""Limits of this machine's GPUs by the class of their holders, shown and, if told to, set: docs/class-limits.md."""
