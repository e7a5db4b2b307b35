"""Readers of files, one per format; each writes to a sink (:mod:`hpn.datasets.sink`)."""
