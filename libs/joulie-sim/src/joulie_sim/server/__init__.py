"""The simulator as a service: watches nodes and pods, and serves telemetry and control over HTTP."""
