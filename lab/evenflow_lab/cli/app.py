"""The command line: `evenflow-lab bench | torture | reproduce`."""

from __future__ import annotations

from evenflow.cli.app import CODES
from evenflow.cli.verbs import Verbs
from evenflow_lab.cli.verbs import add_verbs

app = Verbs(
    help="The evidence for Evenflow: measured runs, faults by seed, the papers' claims beside ours.", epilog=CODES
)
add_verbs(app)
