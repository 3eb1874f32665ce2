"""Nodes that a pod may run on, and how well each suits it. Source: docs/decisions/0002-extender.md."""
