"""Energy of this node by pod, from counters: docs/energy-by-pod.md."""
