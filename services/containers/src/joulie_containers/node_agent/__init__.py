"""The node agent: configuration and node metadata for the resource manager, from the API server."""
