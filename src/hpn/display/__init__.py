"""What a command prints: tables on standard output, progress on standard error."""
