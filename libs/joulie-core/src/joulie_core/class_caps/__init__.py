"""Limits of devices by the class of the pods that hold them, and by how much longer those pods may run.

Agents show them (docs/decisions/0050-class-limits-in-shadow.md) and, if told to, set those by clock
(docs/decisions/0054-class-limits-enforced.md).
"""
