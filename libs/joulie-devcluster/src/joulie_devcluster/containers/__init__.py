"""Container images without a registry: a private Docker engine, service images, and a busybox image."""
