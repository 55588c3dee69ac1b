"""The last check against a naive recount, and what a clash is a sign of."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.cluster_writer.core.last_check import clash
from berth.contracts import names
from berth.contracts.grants import CPU, allocation_of, device, one
from berth.contracts.ledger import Decision
from berth.transaction.claims import Claim


def grant(minor, percent=100):
    return device("gpu", minor, {names.GPU_CORE: percent, names.GPU_MEMORY_RATIO: percent})


def decision(cpu=1, devices=(), **more):
    amounts = {"cpu": cpu} if isinstance(cpu, int) else cpu
    known = {"plan": "p", "namespace": "ns", "name": "me", "uid": "me", "attempt": 0, "node": "n", "pod_version": 1}
    return Decision(**(known | {"basis": 1, "allocation": allocation_of(amounts, devices)} | more))


def claim(name, cpu=1, devices=(), plan="other", **more):
    amounts = {"cpu": cpu} if isinstance(cpu, int) else cpu
    return Claim(("ns", name), name, "n", amounts, tuple(devices), plan=plan, **more)


def check(mine, others, cpu=10, **capacity):
    return clash(mine, others, {"cpu": cpu} | capacity)


def test_capacity_to_the_last_core():
    assert check(decision(4), [claim("a", 6)]) is None
    found = check(decision(5), [claim("a", 6)])
    assert found is not None
    assert "11 claimed of 10" in found.text


def test_its_own_claim_does_not_stand_in_its_way():
    assert check(decision(6), [claim("me", 6)]) is None


def test_a_clash_that_takes_a_strangers_pod_is_no_loss():
    mine, stranger = decision(devices=[grant(0, 60)]), claim("stranger", devices=[grant(0, 50)], plan="")
    found = check(mine, [claim("a", devices=[grant(0, 40)]), stranger])
    assert found is not None
    assert not found.is_ours
    found = check(mine, [claim("a", devices=[grant(0, 50)]), stranger])
    assert found is not None
    assert found.is_ours, "ours clash without the stranger as well"


def test_a_cpu_is_nobody_elses():
    mine = decision(2, devices=[one(CPU, "2"), one(CPU, "3", "PCPULevel")])
    assert check(mine, [claim("a", 2, devices=[one(CPU, "0"), one(CPU, "1")])]) is None
    found = check(mine, [claim("a", 2, devices=[one(CPU, "3"), one(CPU, "4")])])
    assert found is not None
    assert (found.text, found.is_ours) == ("count of CPU 3 on n: 2 claimed of 1", True)
    unknown = check(mine, [claim("a", 2, unreadable=("cores",))])
    assert unknown is not None
    assert not unknown.is_ours
    assert check(decision(2), [claim("a", 2, unreadable=("cores",))]) is None


@pytest.mark.parametrize("name", ["cpu", "example.com/dongle", names.BATCH_CPU])
def test_a_node_may_come_to_offer_less_which_proves_nothing(name):
    found = clash(decision({name: 5}), [claim("a", {name: 5})], {name: 8})
    assert found is not None
    assert not found.is_ours
    found = clash(decision({name: 5}), [], {})
    assert found is not None, "it does not offer any at the moment"
    assert not found.is_ours


def test_a_minor_is_given_once():
    assert check(decision(devices=[grant(0)]), [claim("a", devices=[grant(1)])]) is None
    found = check(decision(devices=[grant(0)]), [claim("a", devices=[grant(0)])])
    assert found is not None
    assert found.is_ours
    assert check(decision(devices=[grant(0, 50)]), [claim("a", devices=[grant(0, 50)])]) is None
    assert check(decision(devices=[grant(0, 50)]), [claim("a", devices=[grant(0, 51)], plan="")]) is not None
    assert check(decision(devices=[grant(0, 60), grant(0, 60)]), []) is not None


def test_minors_that_nobody_knows_stop_devices_only():
    stranger = claim("a", plan="", unreadable=("devices",))
    found = check(decision(devices=[grant(0)]), [stranger])
    assert found is not None
    assert not found.is_ours
    assert check(decision(), [stranger]) is None
    ours = claim("a", plan="p", unreadable=("devices",))
    found = check(decision(devices=[grant(0)]), [ours])
    assert found is not None
    assert not found.is_ours, "an annotation that was edited is no loss"


def test_a_reservation_and_its_users_share_what_it_holds():
    held = Claim(("", "r"), "r", "n", {"cpu": 6}, (grant(0, 50),), plan="p", is_reservation=True)
    user = claim("user", 4, [grant(0, 50)], reservation="r")
    assert check(decision(4), [held, user]) is None, "four outside, six held, four of them used"
    assert check(decision(5), [held, user]) is not None
    assert check(decision(2, reservation_uid="r"), [held, user]) is None
    assert check(decision(devices=[grant(0, 50)]), [held, user]) is None, "the user draws on the reservation's half"
    assert check(decision(devices=[grant(0, 60)]), [held, user]) is not None
    mine = decision(6, kind="reservation", namespace="", name="r", uid="r")
    assert check(mine, [user, claim("a", 4)]) is None


def test_ports_and_slots():
    mine = decision(host_ports=["0.0.0.0/TCP/80"])
    found = check(mine, [claim("a", ports=("10.0.0.1/TCP/80",))])
    assert found is not None
    assert found.is_ours
    found = check(mine, [claim("a", ports=("10.0.0.1/TCP/80",), plan="")])
    assert found is not None
    assert not found.is_ours
    assert check(mine, [claim("a", ports=("10.0.0.1/UDP/80", "10.0.0.1/TCP/81"))]) is None
    one = decision(host_ports=["10.0.0.1/TCP/80"])
    assert check(one, [claim("a", ports=("10.0.0.2/TCP/80",))]) is None
    assert check(decision(), [claim("a")], pods=2) is None
    found = check(decision(), [claim("a"), claim("b")], pods=2)
    assert found is not None
    assert not found.is_ours


minors = st.lists(st.integers(0, 2), max_size=2, unique=True)
claims = st.lists(
    st.tuples(st.integers(0, 6), minors, st.sampled_from([50, 100]), st.booleans(), st.sampled_from(["", "r"])),
    max_size=6,
)


@settings(max_examples=100)
@given(st.integers(0, 6), minors, st.sampled_from([50, 100]), claims, st.sampled_from(["", "r"]), st.booleans())
def test_it_finds_what_a_naive_recount_finds(cpu, mine_minors, share, others, draws_on, has_reservation):
    mine = decision(cpu, [grant(minor, share) for minor in mine_minors], reservation_uid=draws_on)
    known = [
        claim(f"c{i}", each_cpu, [grant(m, part) for m in ms], "p" if ours else "", reservation=on)
        for i, (each_cpu, ms, part, ours, on) in enumerate(others)
    ]
    held = Claim(("", "r"), "r", "n", {"cpu": 4}, (grant(0, 50),), plan="p", is_reservation=True)
    everybody = [*known, held] if has_reservation else known
    found = check(mine, everybody)
    assert (found is not None) == (_takes_too_much(mine, everybody) or _is_given_twice(mine, everybody))
    if found is not None:
        assert found.is_ours == _is_given_twice(mine, [each for each in everybody if each.is_ours])


def _shared(mine, others):
    """Amounts, devices and reservation of every pod; the reservations."""
    pods = [(mine.allocation.amounts, mine.allocation.grants, mine.reservation_uid)]
    pods += [(c.amounts, c.grants, c.reservation) for c in others if not c.is_reservation]
    return pods, [c for c in others if c.is_reservation]


def _takes_too_much(mine, others):
    """Core by core: what the pods take, and of a reservation what its users leave."""
    pods, held = _shared(mine, others)
    cpu = sum(amounts["cpu"] for amounts, _, _ in pods)
    for each in held:
        cpu += max(0, each.amounts["cpu"] - sum(a["cpu"] for a, _, on in pods if on == each.uid))
    return cpu > 10 and mine.allocation.amounts["cpu"] > 0


def _is_given_twice(mine, others):
    """The same for each device that the decision takes."""
    pods, held = _shared(mine, others)
    for minor in {g.minor for g in mine.allocation.grants}:

        def on_minor(devices, minor=minor):
            return sum(g.amounts[names.GPU_CORE] for g in devices if g.minor == minor)

        taken = sum(on_minor(devices) for _, devices, _ in pods)
        for each in held:
            taken += max(0, on_minor(each.grants) - sum(on_minor(d) for _, d, on in pods if on == each.uid))
        if taken > 100:
            return True
    return False


def test_where_kubelet_picks_cards_they_go_by_number_or_by_minor():
    mine, shows = decision({names.NVIDIA_GPU: 1}), {names.NVIDIA_GPU: 2}
    assert check(mine, [claim("a", {names.NVIDIA_GPU: 1}, unreadable=("GPUs by number",))], **shows) is None
    shared = claim("b", {names.GPU_CORE: 50}, [grant(0, 50)])
    for others, capacity in (
        ([claim("a", {names.NVIDIA_GPU: 2})], shows),
        ([shared], shows),
        ([], {names.NVIDIA_GPU: 0}),
        ([], {}),
    ):
        found = check(mine, others, **capacity)
        assert found is not None
        assert not found.is_ours
    assert check(decision({names.NVIDIA_GPU: 1}, unasked=["DeviceShare"]), []) is None, "somebody else gives them out"
    by_minor = decision({names.GPU_CORE: 50}, [grant(0, 50)])
    assert check(by_minor, [shared], **shows) is None
    for capacity in (shows, {}):
        found = check(by_minor, [claim("a", {names.NVIDIA_GPU: 1}, unreadable=("GPUs by number",))], **capacity)
        assert found is not None, "nobody knows whose card it is"
    on_nic = decision({names.RDMA: 1}, [device("rdma", 0, {names.RDMA: 1})])
    assert check(on_nic, [claim("a", {names.NVIDIA_GPU: 1}, unreadable=("GPUs by number",))], **shows) is None
    assert check(by_minor, [], **{names.GPU_CORE: 0}) is not None, "kubelet would refuse it"


@settings(max_examples=150)
@given(st.data())
def test_beside_numbers_a_card_is_taken_as_a_recount_says(data):
    gpus = data.draw(st.integers(1, 4))
    order, others, picked = data.draw(st.permutations(range(gpus))), [], set()
    are_said = True
    for place, size in enumerate(data.draw(st.lists(st.integers(1, 2), max_size=3))):
        cards, order = order[:size], order[size:]
        if len(cards) < size:
            break
        said = data.draw(st.booleans())
        more = {"by_kubelet": True} if said else {"unreadable": ("GPUs by number",)}
        are_said &= said
        picked |= {*cards}
        plan = data.draw(st.sampled_from(["", "other"]))
        grants = map(grant, cards) if said else ()
        others.append(claim(f"c{place}", {names.NVIDIA_GPU: size}, grants, plan=plan, **more))
    minor = data.draw(st.integers(0, gpus - 1))
    found = check(decision({names.GPU_CORE: 50}, [grant(minor, 50)]), others, **{names.NVIDIA_GPU: gpus})
    assert (found is None) == (are_said and minor not in picked)
    assert found is None or not found.is_ours, "that kubelet has picked a card is no sign of a loss"
    on_top = check(decision({names.NVIDIA_GPU: 1}), others, **{names.NVIDIA_GPU: gpus})
    assert (on_top is None) == (len(picked) < gpus), "kubelet knows what it has picked"
