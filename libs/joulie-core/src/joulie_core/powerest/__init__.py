"""How many watts a pod will add to a node before it runs there. Source: docs/decisions/0002-extender.md."""
