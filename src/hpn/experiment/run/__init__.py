"""One run: configuration, folder, loop over steps, checkpoints, result."""
