"""The one writer of a machine: what of it can be read and set, and the privileged process that does so.

The actuator runs as root, has no network access and no API token, and makes no decisions. It executes a short list of
typed requests on a UNIX socket, keeps the journal of originals and restores them: on request, when it ends, when a
lease expires, and at its next start if it was killed. What runs as root is kept small enough to be reviewed: it imports
neither kubernetes_asyncio, aiohttp nor pydantic.

Its clients are services that never see each other: one for power, one for container resources. They send what they
wish, each under a lease of its own, and the actuator combines it: docs/decisions/0036-container-resources.md.
"""
