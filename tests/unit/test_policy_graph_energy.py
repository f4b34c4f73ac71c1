"""The energies of operators (potential-driven §2.2, §3.2), by worked examples."""

import numpy as np
import pytest

from evenflow.errors import InvalidArgument
from evenflow.model.graphs.placement import EnergyWeights, Host, Links, OperatorLoad, PlacementProblem
from evenflow.policy.graph.dyn_prog import DynProgPlacement
from evenflow.policy.graph.energies.energy import PartialPlacement, load_energy, total_energy
from evenflow.policy.graph.energies.latency import LatencyModel, result_shares
from evenflow.policy.graph.energies.measures import cascade, correlation, covariance, joint, mean, steadied, variance
from evenflow.policy.graph.greedy import GreedyPlacement
from evenflow.policy.graph.potential import PotentialPlacement

LOAD, CORRELATION, NETWORK = (EnergyWeights(*(float(place == at) for place in range(3))) for at in range(3))


def problem(series, readers=None, hosts=2, links=None, bytes_s=100.0, **options):
    operators = tuple(
        OperatorLoad(f"o{i}", tuple(each), tuple((readers or {}).get(i, ())), 10.0, bytes_s)
        for i, each in enumerate(series)
    )
    machines = hosts if isinstance(hosts, tuple) else tuple(Host(j) for j in range(hosts))
    return PlacementProblem(operators, machines, links or Links(delay_ms=7.0, bandwidth=1e3), **options)


def figure_1(**options):
    """DS feeds A and B; C reads A; D reads A and B. A = 0, B = 1, C = 2, D = 3."""
    return problem([[0.1]] * 4, {0: (2, 3), 1: (3,)}, **options)


def test_ideal_rates_of_figure_1():
    """lambda'_C = delta_A lambda_DS and lambda'_D = (delta_A + delta_B) lambda_DS (§2.2.1)."""
    rates = cascade([100.0], [(0,), (0,), (1,), (1, 2)], [0.5, 0.25, 1.0, 0.001])
    assert rates.arrivals.tolist() == [100.0, 100.0, 50.0, 75.0]
    assert rates.outputs.tolist() == [50.0, 25.0, 50.0, pytest.approx(0.001 * 50 * 25)]


def test_rates_cascade_by_period():
    rates = cascade([[10.0, 20.0], [2.0, 3.0]], [(0, 1), (2,)], [0.5, 0.1])
    assert rates.arrivals.tolist() == [[12.0, 23.0], [10.0, 30.0]]
    assert rates.outputs.tolist() == [[10.0, 30.0], [1.0, 3.0]]


def test_streams_must_come_before_their_readers():
    with pytest.raises(InvalidArgument, match=r"operator 0 reads the streams \(1,\)"):
        cascade([100.0], [(1,)], [1.0])


@pytest.mark.parametrize(
    ("inputs", "by_rows", "found"),
    [([100], False, 100), ([4, 10], False, 40), ([0, 10], False, 0), ([4, 10], True, 14), ([0, 10], True, 0)],
)
def test_output_grows_with_the_product_of_inputs_or_with_their_sum(inputs, by_rows, found):
    assert joint(inputs, by_rows) == found


def test_mean_variance_and_correlation():
    up, down, flat = np.array([1.0, 2.0, 3.0]), np.array([6.0, 4.0, 2.0]), np.array([5.0, 5.0, 5.0])
    assert (mean(up), variance(up), covariance(up, down)) == pytest.approx((2, 2 / 3, -4 / 3))
    assert [float(correlation(up, other)) for other in (up, down, flat)] == pytest.approx([1, -1, 0])


def test_a_row_more_or_less_in_a_period_is_no_variance():
    """70 ms between two rows are 71 or 72 of them in 5 s: without this, all of one source correlate with 1."""
    counts = np.array([[71.0, 72.0, 71.0, 71.0, 72.0], [71.0, 72.0, 71.0, 71.0, 74.0]])
    found = steadied(counts / 5, np.full(5, 5.0))
    assert np.ptp(found[0]) == 0
    assert found[0, 0] == pytest.approx(71.4 / 5)
    assert (found[1] == counts[1] / 5).all()
    assert correlation(found[0], found[0]) == 0


def test_load_energy_with_quota_and_penalty():
    """PE_l is ld / q below the quota, and 1 + p (ld / q - 1) from there on."""
    found = load_energy(np.array([0.2, 0.5, 1.0, 0.6]), np.array([1.0, 1.0, 1.0, 0.5]), 20.0)
    assert found.tolist() == pytest.approx([0.2, 0.5, 1.0, 1 + 20 * 0.2])


def test_an_operator_counts_its_own_load_and_the_background():
    hosts = (Host(0, coefficient=2.0), Host(1, quota=0.5, background=(0.1,)))
    partial = PartialPlacement(problem([[0.2], [0.3]], hosts=hosts), LOAD)
    assert partial.pe_of(0).tolist() == pytest.approx([0.4, 0.6])
    partial.add(0, 1)
    assert partial.pe_of(1).tolist() == pytest.approx([0.6, 1 + 20 * 0.2])


def test_correlation_is_with_all_others_on_the_host():
    partial = PartialPlacement(problem([[1, 2, 3], [3, 2, 1], [1, 2, 3]], hosts=3), CORRELATION)
    partial.add(0, 0)
    partial.add(1, 1)
    assert partial.pe_of(2).tolist() == pytest.approx([1, -1, 0])
    partial.remove(1)
    partial.add(1, 0)
    assert partial.pe_of(2).tolist() == pytest.approx([0, 0, 0]), "two that fill each other's gaps do not vary"


def test_network_energy_of_figure_1():
    """Placement 1 has A, B and D together and C apart: only A sends over the link. Placement 2 moves D to C.

    Then A and B send over it. (The text says C and D; with downstream links only, it is those two that send.)
    """
    assert total_energy(figure_1(), (0, 0, 1, 0), NETWORK) == 7.0
    assert total_energy(figure_1(), (0, 0, 1, 1), NETWORK) == 14.0
    assert total_energy(figure_1(), (0, 0, 0, 0), NETWORK) == 0.0


def test_one_transmission_for_all_readers_on_a_host():
    partial = PartialPlacement(figure_1(hosts=3), NETWORK)
    partial.add(2, 1)
    partial.add(3, 1)
    assert partial.pe_of(0).tolist() == [7.0, 0.0, 7.0]
    partial.add(0, 0)
    assert partial.traffic.bytes.sum() == 100.0
    partial.remove(3)
    partial.add(3, 2)
    assert partial.traffic.bytes.sum() == 200.0


def test_a_link_beyond_its_bandwidth_costs_more():
    """A and B together send 1600 bytes a second over a link of 1000: c(l) = d u = 7 * 1.6, for each of them."""
    assert total_energy(figure_1(bytes_s=800.0), (0, 0, 1, 1), NETWORK) == pytest.approx(2 * 7 * 1.6)
    partial = PartialPlacement(figure_1(bytes_s=800.0), NETWORK)
    for operator, host in ((0, 0), (2, 1), (3, 1)):
        partial.add(operator, host)
    assert partial.pe_of(1).tolist() == pytest.approx([7 * 1.6, 0.0])


def test_links_have_a_direction():
    links = Links(delay_ms=7.0, bandwidth=1e3, pairs={(1, 0): (3.0, 1e3)})
    assert total_energy(figure_1(links=links), (1, 1, 0, 1), NETWORK) == 3.0
    assert total_energy(figure_1(links=links), (0, 0, 1, 0), NETWORK) == 7.0


def test_a_users_own_term():
    """An energy that keeps operators off host 1 and, as an example of what it may read, counts those already placed."""

    def term(problem, placed, operator):
        assert placed[operator] == -1
        return np.array([0.0, 5.0]) + (placed >= 0).sum()

    nothing = EnergyWeights(0, 0, 0)
    partial = PartialPlacement(figure_1(), nothing, (term,))
    partial.add(0, 1)
    assert partial.pe_of(1).tolist() == [1.0, 6.0]
    assert total_energy(figure_1(), (1, 0, 0, 0), nothing, (term,)) == 5.0 + 4 * 3
    assert PotentialPlacement(weights=EnergyWeights(1, 0, 0), terms=(term,)).place(figure_1()) == (0, 0, 0, 0)


def test_results_are_followed_upstream():
    """Half of D's results come by way of A and half by way of B: their rows are as many."""
    shares = result_shares(figure_1())
    assert shares.operators.tolist() == pytest.approx([0.75, 0.25, 0.5, 0.5])
    assert shares.streams == pytest.approx({(0, 2): 0.5, (0, 3): 0.25, (1, 3): 0.25})


def test_waiting_grows_with_load_and_with_its_variance():
    model = LatencyModel(turn_ms=2.0, period_s=1.0)
    steady, varied = np.full((1, 4), 0.5), np.array([[0.2, 0.8, 0.2, 0.8]])
    assert model.waiting(steady, 2 * steady).tolist() == pytest.approx([2.0])
    assert model.waiting(varied, 2 * varied).tolist() == pytest.approx([(2 * 0.2 / 0.8 + 2 * 0.8 / 0.2) / 2])
    burst = np.array([[0.5, 1.5, 0.0, 0.5]])  # 500 ms are left over from the second period, and gone by the third
    assert model.backlog(burst).tolist() == pytest.approx([(250 + 250) / 4])
    assert model.backlog(varied).tolist() == [0.0]
    late = np.array([[0.0, 0.5, 0.5, 1.5]])  # the 500 ms are left to the first period of the next round
    assert model.backlog(late).tolist() == pytest.approx([(250 + 250) / 4])


def test_overload_outweighs_any_delay():
    """Two operators do not fit on one host, however slow the link between two is."""
    apart = problem([[0.6], [0.6]], {0: (1,)}, links=Links(delay_ms=2000.0))
    assert len(set(PotentialPlacement().place(apart))) == 2
    near = problem([[0.2], [0.2]], {0: (1,)}, links=Links(delay_ms=2000.0))
    assert len(set(PotentialPlacement().place(near))) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Host(3, quota=0.0), "load quota of worker 3 is 0.0, which leaves no room"),
        (lambda: Host(3, quota=1.5), "load quota of worker 3 is 1.5"),
        (lambda: Host(3, coefficient=0.0), "coefficient of worker 3 is 0.0"),
        (lambda: OperatorLoad("f", (0.1, -1.0)), "load of operator 'f' has the value -1.0"),
        (lambda: OperatorLoad("f", ()), "operator 'f' has no load series"),
        (lambda: OperatorLoad("f", (0.1,), (1, 1)), "name each once"),
        (lambda: OperatorLoad("f", (0.1,), rows_s=-1.0), "rows_s of operator 'f' is -1.0"),
        (lambda: problem([[0.1], [0.1, 0.2]]), "'o1' has 2 periods, not 1"),
        (lambda: problem([[0.1]], {0: (1,)}), "not all exist"),
        (lambda: problem([[0.1], [0.1]], {0: (1,), 1: (0,)}), "'o0' is in a cycle"),
        (lambda: problem([[0.1]], placed=(2,)), "there are only 2"),
        (lambda: problem([[0.1]], placed=(0, 1)), "2 hosts are given for 1 operators"),
        (lambda: problem([[0.1]], hosts=()), "no worker"),
        (lambda: problem([[0.1]], hosts=(Host(0, background=(0.1, 0.2)),)), "2 periods, not 1"),
        (lambda: Links(pairs={(0, 2): (1.0, 1.0)}).dense(2), "from host 0 to host 2"),
        (lambda: Links(bandwidth=0.0).dense(2), "no bandwidth"),
        (lambda: Links(delay_ms=-1.0).dense(2), "negative or endless delay"),
        (lambda: Links(delay_ms=np.zeros((3, 3))).dense(2), r"shape \(3, 3\)"),
        (lambda: EnergyWeights(load=-1.0), "weight of load is -1.0"),
        (lambda: EnergyWeights(overload=0.5), "overload penalty is 0.5"),
    ],
)
def test_what_cannot_work_is_refused(call, message):
    with pytest.raises(InvalidArgument, match=message):
        call()


@pytest.mark.parametrize(("both_ways", "energies"), [(False, [0.0, 0.0, 0.0]), (True, [7.0, 7.0, 14.0])])
def test_links_from_senders_count_if_both_ways_do(both_ways, energies):
    """D reads A on host 0 and B on host 1."""
    partial = PartialPlacement(figure_1(hosts=3), NETWORK, both_ways=both_ways)
    partial.add(0, 0)
    partial.add(1, 1)
    assert partial.pe_of(3).tolist() == energies


@pytest.mark.parametrize("kind", [GreedyPlacement, DynProgPlacement])
def test_an_operator_follows_its_sender_if_both_ways_count(kind):
    """Loads fall along the chain, so each comes before its reader; the network outweighs everything."""
    chain = problem([[0.3], [0.2], [0.1]], {0: (1,), 1: (2,)}, hosts=2)
    weights = EnergyWeights(load=1, correlation=0, network=1)
    assert len(set(kind(weights).place(chain))) == 2
    assert len(set(kind(weights, both_ways=True).place(chain))) == 1
