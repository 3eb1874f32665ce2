"""Limits of devices by the class of the pods that hold them, and by how much longer those pods may run.

Nothing in Joulie enforces them on real nodes yet: docs/decisions/0020-class-caps.md.
"""
