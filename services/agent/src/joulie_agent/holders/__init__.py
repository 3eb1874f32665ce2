"""Pods that hold the GPUs of this node: the process that asks the kubelet, and what the controller makes of it."""
