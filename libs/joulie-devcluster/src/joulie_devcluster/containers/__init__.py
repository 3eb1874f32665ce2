"""Container images without a registry: a private Docker engine, images of the services, a busybox image."""
