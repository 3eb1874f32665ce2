"""The two gRPC interfaces between the resource manager and the node agent."""
