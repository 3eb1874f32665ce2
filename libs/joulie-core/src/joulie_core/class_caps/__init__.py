"""Limits of devices by the class of the pods that hold them, and by how much longer those pods may run.

Nothing in Joulie sets them on real nodes yet; agents show them: docs/decisions/0050-class-limits-in-shadow.md.
"""
