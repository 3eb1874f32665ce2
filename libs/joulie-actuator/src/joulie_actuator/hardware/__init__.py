"""The host interfaces of a machine: what can be read and set, and how it is restored. Synchronous code only."""
