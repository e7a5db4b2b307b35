"""Runs, comparisons, searches and recipes."""
