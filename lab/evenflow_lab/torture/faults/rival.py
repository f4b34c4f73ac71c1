"""A second driver that tries to take the checkpoint of a first.

`python -m evenflow_lab.torture.faults.rival WHERE [KEY]`.
"""

from __future__ import annotations

import sys

from evenflow.errors import StoreInUse
from evenflow.runtime.driver.checkpoint import CheckpointThread
from evenflow.state.store.sealed import key_of, placed


def main(where: str, key: str | None = None) -> int:
    """Try to claim the checkpoint; the exit code is 0 if that is refused."""
    try:
        checkpoint_thread = CheckpointThread(placed(where, key_of(key)), "a rival")
    except StoreInUse as error:
        print(error)
        return 0
    checkpoint_thread.close()
    print("it got the checkpoint of a driver that was at work")
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
