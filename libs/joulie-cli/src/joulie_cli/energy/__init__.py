"""Energy of workloads, namespaces and pods for `kubectl joulie energy`: rows, queries and their answers."""
