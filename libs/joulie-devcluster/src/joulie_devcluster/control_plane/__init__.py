"""A Kubernetes control plane as child processes, with KWOK nodes."""
