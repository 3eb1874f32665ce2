"""The start hook: an NRI plugin that lets the agent lift limits of GPUs before a container starts."""
