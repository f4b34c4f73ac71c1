"""`python -m evenflow` is the command line."""

from evenflow.cli.app import app

app()
