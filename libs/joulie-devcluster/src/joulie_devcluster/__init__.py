"""A real Kubernetes control plane on one machine, without Docker."""
