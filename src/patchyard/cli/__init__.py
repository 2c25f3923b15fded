"""The command line, one command group a file; nothing heavy is imported before it runs."""
