"""Scheduler extender: filters and scores nodes for kube-scheduler from watched twins."""
