"""A real node (kubelet and containerd) beside KWOK's, on the machine that the control plane runs on. Needs root."""
