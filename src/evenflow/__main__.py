"""`python -m evenflow` is the command line."""

from evenflow.cli import main

main()
