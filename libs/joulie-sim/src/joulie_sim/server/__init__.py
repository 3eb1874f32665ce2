"""The simulator as a service: nodes and pods in from Kubernetes, telemetry and controls over HTTP."""
