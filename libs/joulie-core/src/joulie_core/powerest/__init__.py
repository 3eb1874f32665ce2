"""How many watts a pod will add to a node before it runs there. Source: scheduler-extender document."""
