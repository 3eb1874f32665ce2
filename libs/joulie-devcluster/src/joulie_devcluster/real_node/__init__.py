"""A real node (kubelet and containerd) on the host that runs the control plane, next to KWOK nodes. Requires root."""
