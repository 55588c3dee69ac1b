"""What holds of every offer: it is the sum of its terms, never below 0, and more use never makes it more."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from berth.contracts.names import BATCH_CPU, CPU, MEMORY
from berth.rules.cpus.qos import BATCH, FREE, MID, PROD
from berth.rules.load_aware.metric import HostApplicationReport, PodReport
from berth.rules.node_strategies.colocation import DEFAULT, Colocation
from berth.slo_manager.core.offers.facts import Facts, Holder, Measured
from berth.slo_manager.core.offers.registry import KINDS
from berth.slo_manager.core.offers.rules import V1_6, V1_8, Rules
from berth.slo_manager.core.offers.settling import Settling
from berth.slo_manager.core.offers.zones import zone_offers

amount = st.integers(0, 10**6)
amounts = st.fixed_dictionaries({CPU: amount, MEMORY: amount})
classes = st.sampled_from((PROD, MID, ""))
holders = st.builds(
    Holder,
    name=st.just(("d", "p")),
    uid=st.just("u"),
    requests=amounts,
    priority_class=classes,
    is_exclusive=st.booleans(),
    zones=st.lists(st.integers(0, 3), max_size=2).map(tuple),
)
facts = st.builds(
    Facts,
    capacity=amounts,
    kubelet_reserved=amounts,
    annotated=amounts,
    system=amounts,
    node_usage=st.none() | amounts,
    pods=st.lists(st.builds(Measured, holders, st.none() | amounts), max_size=4).map(tuple),
    gone=st.lists(st.builds(PodReport, amounts, st.just(True), st.sampled_from((PROD, BATCH, ""))), max_size=2).map(
        tuple
    ),
    host_applications=st.lists(
        st.builds(HostApplicationReport, amounts, st.sampled_from((PROD, MID, BATCH, FREE))), max_size=2
    ).map(tuple),
    prod_reclaimable=st.none() | amounts,
    zones=st.dictionaries(st.integers(0, 2), amounts, max_size=3),
)
percent = st.integers(0, 100)
strategies = st.fixed_dictionaries(
    {
        "cpuReclaimThresholdPercent": st.integers(0, 200),
        "memoryReclaimThresholdPercent": st.integers(0, 200),
        "cpuCalculatePolicy": st.sampled_from(("usage", "maxUsageRequest")),
        "memoryCalculatePolicy": st.sampled_from(("usage", "request", "maxUsageRequest")),
        "batchCPUThresholdPercent": st.none() | percent,
        "midCPUThresholdPercent": percent,
        "midUnallocatedPercent": percent,
        "midReclaimMode": st.sampled_from(("", "static")),
        "midStaticCPUReservedPercent": percent,
    }
).map(lambda said: convert({**DEFAULT, **said}, Colocation))
rules = st.builds(Rules, mid_formula=st.sampled_from((V1_6, V1_8)))


@given(facts, strategies, rules)
def test_an_offer_is_the_sum_of_its_terms(known, strategy, reading):
    for kind in KINDS:
        for total in kind(known, strategy, reading).values():
            assert total.amount == sum(total.terms.values()) >= 0
    assert all(part >= 0 for zone in zone_offers(known, strategy).values() for part in zone.values())


@given(facts, strategies, amounts)
def test_more_use_never_lends_more(known, strategy, more):
    busier = known._replace(system={name: used + more[name] for name, used in known.system.items()})
    for kind in KINDS:
        before, after = kind(known, strategy, Rules()), kind(busier, strategy, Rules())
        assert all(after[name].amount <= before[name].amount for name in before)


@given(facts, strategies, holders)
def test_a_pod_that_comes_never_lends_more(known, strategy, holder):
    fuller = known._replace(pods=(*known.pods, Measured(holder, None)))
    for kind in KINDS:
        before, after = kind(known, strategy, Rules()), kind(fuller, strategy, Rules())
        assert all(after[name].amount <= before[name].amount for name in before)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=12))
def test_what_is_offered_was_seen_twice(looks):
    """Never more than the newest report allows, nor, where it rises, than the one before."""
    settling, shown, report, least = Settling(), 0, 0, list[int]()
    for is_new, amount_now in looks:
        if is_new or not least:
            report += 1
            least.append(amount_now)
        else:
            least[-1] = min(least[-1], amount_now)
        settled = settling.settled(BATCH_CPU, report, amount_now, shown)
        assert settled <= amount_now
        if settled > shown:
            assert len(least) > 1
            assert settled <= min(least[-2:])
        shown = settled
