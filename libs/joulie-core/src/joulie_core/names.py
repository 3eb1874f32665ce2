"""Identities that must not be mixed up with other strings."""

from typing import NewType

#: A Kubernetes Node name; also the name of every Joulie object that belongs to that node.
NodeName = NewType("NodeName", str)
