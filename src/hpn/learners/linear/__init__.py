"""Learners without a network: class means and linear models on smoothed features."""
