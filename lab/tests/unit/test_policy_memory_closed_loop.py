"""Memory in a closed loop: flux §6.3 and §6.4 in small, and state that outgrows one worker while others have room.

Eight workers and 512 units, of 1 MB each unless said otherwise; throughput as in test_policy_keyed_closed_loop.
"""

import numpy as np
import pytest
from simulated.memory_model import MB, MemoryModel
from simulated.paged_workers import PagedWorkers
from tests.support.keyed_model import drive, shares

from evenflow.policy.keyed.auto import Auto
from evenflow.policy.keyed.flux.auto import FluxAuto
from evenflow.policy.keyed.flux.hash_units import Hash
from evenflow.policy.keyed.flux.hybrid import FluxHybrid
from evenflow.policy.keyed.flux.memory import FluxMemory
from evenflow.state.paging import swap

pytestmark = pytest.mark.slow

EVEN = [1.0] * 8
SLOW = [0.43] + [1.0] * 7
UNITS = 512
AMPLE = [100 * MB] * 8
SQUEEZED = [40 * MB] + [100 * MB] * 7
SOURCE = 28_000.0
"""Rows a second: 70 % of what the workers can do, so that they have time to serve what others have no memory for."""
SEEDS = [1, 2]


def run(balance, seconds, *, kind="uniform", speed=EVEN, seed=1, memory=AMPLE, **more):
    load = shares(kind, UNITS, seed)
    return drive(balance, load, speed, seconds, seed=seed, kind=MemoryModel, memory=list(memory), **more)


def spilled(result):
    """Bytes on disk at the end of each second, by worker."""
    return np.array(result.model.history)[99::100]


def growing(seed):
    """80/20 keys, and state that grows by 300 bytes a row, 80 % of it in 20 % of the units, whatever their load."""
    heavy = np.random.default_rng(seed).permutation(UNITS) < UNITS // 5
    growth = np.where(heavy, 0.8 / heavy.sum(), 0.2 / (~heavy).sum())
    row_bytes = 300 * growth / shares("80/20", UNITS, seed)
    return {"kind": "80/20", "seed": seed, "size": 0.2 * MB, "row_bytes": row_bytes, "memory": [65 * MB] * 8}


def test_figure_11_hash_stays_slow():
    """One worker loses 60 % of its memory: it cycles through units on disk, and holds up everybody."""
    result = run(Hash(), 25, squeeze=[(3, SQUEEZED)], source=SOURCE)
    assert result.of_bound[1:3].min() > 0.97
    assert result.of_bound[18:].mean() < 0.6
    assert spilled(result)[-1, 0] > 20 * MB


@pytest.mark.parametrize("balance", [FluxMemory, FluxHybrid])
def test_figure_11_flux_memory_comes_back(balance):
    """One unit a round: all state is in memory again after some seconds, and throughput is what it was."""
    result = run(balance(), 20, squeeze=[(3, SQUEEZED)], source=SOURCE)
    assert spilled(result)[3, 0] > 10 * MB
    assert spilled(result)[10:].sum() == 0
    assert result.of_bound[10:].mean() > 0.98


@pytest.mark.parametrize("seed", SEEDS)
def test_figure_11_auto_comes_back_sooner(seed):
    """All units that have to go, at once: within two seconds."""
    result = run(Auto(), 20, seed=seed, squeeze=[(3, SQUEEZED)], source=SOURCE)
    assert spilled(result)[5:].sum() == 0
    assert result.of_bound.min() > 0.9
    assert result.of_bound[5:].mean() > 0.98
    assert 24 <= result.moved[:5].sum() < 40
    assert result.moved[5:].sum() == 0


@pytest.mark.parametrize("balance", [FluxMemory, FluxHybrid, Auto])
def test_figure_13_memory_short_on_half_the_workers(balance):
    result = run(balance(), 20, memory=[50 * MB] * 4 + [100 * MB] * 4, source=SOURCE)
    assert spilled(result)[8:].sum() == 0
    assert result.of_bound[8:].mean() > 0.98
    assert result.moved[8:].sum() == 0


@pytest.mark.parametrize("balance", [FluxMemory, FluxHybrid, Auto])
def test_disks_share_what_no_memory_holds(balance):
    """Figure 15b, c: the workers with least memory do not have it all on disk."""
    memory = [40 * MB] * 4 + [60 * MB] * 4
    static, result = run(Hash(), 30, memory=memory), run(balance(), 30, memory=memory)
    assert spilled(static)[-5:].max() > 20 * MB
    assert spilled(result)[-5:].max() < 20 * MB
    assert result.moved[-10:].sum() <= 10


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("speed", [EVEN, SLOW], ids=["even", "slow"])
def test_state_outgrows_some_workers(speed, seed):
    """State grows to most of all memory: nobody ever spills, nothing thrashes, and throughput stays at its bound."""
    result = run(Auto(), 60, speed=speed, **growing(seed))
    assert 0.75 < result.model.sizes.sum() / (8 * 65 * MB) < 0.97
    assert np.array(result.model.history).max() == 0
    assert result.of_bound[10:].mean() > 0.95
    assert result.moved[10:].sum() < UNITS


@pytest.mark.parametrize("seed", SEEDS)
def test_load_alone_spills(seed):
    """The same state with FluxAuto, which knows nothing of memory."""
    result = run(FluxAuto(), 60, **growing(seed))
    assert spilled(result)[-5:].sum(axis=1).min() > 5 * MB


@pytest.mark.parametrize("kind", ["uniform", "80/20"])
def test_settled_memory_moves_nothing(kind):
    """Nearly full everywhere, and even: nothing for memory to do; load is balanced in what room there is."""
    result = run(Auto(), 30, kind=kind, memory=[70 * MB] * 8)
    assert spilled(result).sum() == 0
    assert result.moved[10:].sum() <= 5
    if kind == "uniform":
        assert result.moved.sum() == 0


def test_load_moves_keep_within_memory():
    """Figure 15a, tight: the slow worker's units have room elsewhere, but only some."""
    for memory, level in ((68 * MB, 0.5), (90 * MB, 0.95)):
        result = run(Auto(), 25, speed=SLOW, memory=[memory] * 8)
        assert spilled(result).sum() == 0
        assert result.of_bound[15:].mean() > level


def test_figure_15a_hybrids_go_on_with_load():
    """Memory and load on one worker: FluxMemory stops when memory is even, the hybrids go on."""
    tight = [60 * MB] + [80 * MB] * 7
    memory, hybrid, auto = (
        run(balance, 30, speed=SLOW, memory=tight).of_bound[-10:].mean()
        for balance in (FluxMemory(), FluxHybrid(), Auto())
    )
    assert memory < 0.75
    assert hybrid > 0.95
    assert auto > 0.95


def test_flux_hybrid_leaves_its_memory_mode_when_cold_state_is_back(monkeypatch):
    """Really paged state: one worker loses memory, and no row ever comes for most of what it puts on disk."""
    monkeypatch.setattr(swap, "SMALLEST", 1)  # groups are a sixteenth of a budget, however small that is
    workers = PagedWorkers([100_000] * 4, units=128, size=2_000)
    hot = np.repeat(np.arange(80, 128, 4), 3)
    workers.pools[0].relinquish(50_000)
    assert workers.spilled()[0] > 10_000
    workers.run(FluxHybrid(), hot, 10)
    assert workers.spilled() == [0] * 4
    assert "excess capacity" in workers.reasons[0]
    assert "excess capacity" not in workers.reasons[-1]
    assert np.bincount(workers.owners[hot], minlength=4).max() <= 18
    workers.close()
