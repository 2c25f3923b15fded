"""`python -m patchyard` is `agents`."""

from patchyard.cli.main import main

main()
