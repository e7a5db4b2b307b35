"""What people see of a command: tables on standard output, progress on standard error."""
