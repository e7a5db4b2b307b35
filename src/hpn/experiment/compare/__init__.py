"""Many methods on one data set, in one table."""
