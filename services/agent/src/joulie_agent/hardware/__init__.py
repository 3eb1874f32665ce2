"""The machine underneath: what can be read and set, and how all of it is given back. Synchronous code only."""
