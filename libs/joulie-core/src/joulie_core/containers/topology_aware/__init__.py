"""The topology-aware policy: containers on the smallest part of the machine that suits them."""
