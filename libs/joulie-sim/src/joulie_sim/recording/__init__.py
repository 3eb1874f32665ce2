"""Recordings of live clusters: their pods and nodes over hours, and what a simulation is given of them."""
