"""The GPUs of this machine: NVIDIA's and AMD's drivers behind one protocol, with a deadline on every call."""
