"""`evenflow.policy` imports each balance on first use, and tells the truth about their names."""

import subprocess
import sys

import pytest

from evenflow import policy
from evenflow.policy import BALANCES, KEYED_BALANCES, PLACEMENTS


@pytest.mark.parametrize("module", ["evenflow.policy", "evenflow.policy.keyed.fair_queue"])
def test_a_worker_pays_for_no_balance(module):
    """Workers import the fair queue: in a fresh interpreter that must bring none of the balances' large packages."""
    heavy = "{'numpy', 'numba'}"
    code = f"import evenflow.policy, {module}, sys; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("name", "kind"),
    [*BALANCES.items(), *KEYED_BALANCES.items(), *PLACEMENTS.items()],
    ids=[*BALANCES, *KEYED_BALANCES, *PLACEMENTS],
)
def test_a_balance_goes_by_its_own_name(name, kind):
    assert kind.name == name
    assert kind is getattr(policy, kind.__name__)


def test_all_is_what_is_exported():
    assert sorted(policy.__all__) == dir(policy)
    assert len(set(policy.__all__)) == len(policy.__all__)
    assert all(getattr(policy, name) is not None for name in policy.__all__)
    classes = {kind.__name__ for kind in (*BALANCES.values(), *KEYED_BALANCES.values(), *PLACEMENTS.values())}
    assert classes < set(policy.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        _ = policy.nothing
