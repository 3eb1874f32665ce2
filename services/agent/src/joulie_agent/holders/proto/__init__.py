"""Messages of the kubelet's pod-resources API; the modules in here are generated: `just protos`."""
