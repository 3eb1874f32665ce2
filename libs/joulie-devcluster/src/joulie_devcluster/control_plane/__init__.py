"""A Kubernetes control plane as child processes, and KWOK nodes in it."""
