"""Pods that hold the GPUs of a node, and as what each GPU is held: docs/decisions/0043-device-holders.md."""
