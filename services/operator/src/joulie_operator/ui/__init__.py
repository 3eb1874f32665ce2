"""The live page: what the operator's watches know of nodes, pods and transitions, for browsers. Read-only."""
