"""The privileged actuator: runs as root, has no network access and no API token, and makes no decisions.

It executes a short list of typed requests of the controller, on a UNIX socket, keeps the journal of originals and
restores them: on request, when it ends, when a lease expires, and at its next start if it was killed. Imports neither
kubernetes_asyncio, aiohttp nor pydantic: what runs as root is kept small enough to be reviewed.
"""
