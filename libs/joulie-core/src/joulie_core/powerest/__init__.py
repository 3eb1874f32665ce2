"""Watts that a pod will add to a node, estimated before it runs there. Source: docs/decisions/0002-extender.md."""
