"""The command line: `cli`, the click group of all commands, and `main`, which runs it."""
