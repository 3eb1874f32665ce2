"""The writer of the agent: a process with root and without a network, a token or an opinion.

It carries out a short list of typed operations for the controller, on a UNIX socket, keeps the journal of originals and
gives them back: when it is told to, when it ends, when its controller falls silent, and at its next start if it was
killed. Imports neither kubernetes_asyncio, aiohttp nor pydantic: what runs as root is small enough to be read.
"""
