"""Choosing hyper-parameters on validation nodes."""
