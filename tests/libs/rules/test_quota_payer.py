"""Who pays for a pod, and how much of it; and a map that is changed claim by claim."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.quota import QuotaRules
from berth.rules.quota_of_pod import DEFAULT_GROUP, ROOT_GROUP, QuotaClaim, QuotaMap
from berth.rules.quota_payer import charged, payer_of, pays_for, uncharged

NAMES = st.sampled_from(["a", "b", "c", ROOT_GROUP])


def test_who_paid_at_the_bind_pays_while_the_group_exists_whatever_labels_say() -> None:
    groups = QuotaMap([QuotaClaim("a"), QuotaClaim("b"), QuotaClaim("ns", "ns")])
    assert payer_of(groups, "old-tree/a", "b", "ns") == "a"
    groups.drop("a")
    assert payer_of(groups, "old-tree/a", "b", "ns") == "b"
    assert payer_of(groups, "old-tree/a", None, "ns") == "ns"
    assert payer_of(groups, "old-tree/a", "a", "ns") == DEFAULT_GROUP
    assert payer_of(groups, "", "b", "ns") == "b"


def test_the_default_group_pays_for_nobody_where_it_is_not_used() -> None:
    groups = QuotaMap([QuotaClaim("a")], uses_default=False)
    assert payer_of(groups, f"/{DEFAULT_GROUP}", None, "ns") is None
    assert payer_of(groups, f"/{DEFAULT_GROUP}", "a", "ns") == "a"


def test_switches_change_the_amount() -> None:
    rules = QuotaRules(ignores_overhead=True, ignores_terminating=True)
    assert charged({"cpu": 5, "memory": 2}, uncharged(rules, {"cpu": 2})) == {"cpu": 3, "memory": 2}
    assert charged({"cpu": 5}, uncharged(QuotaRules(), {"cpu": 2})) == {"cpu": 5}
    assert pays_for(QuotaRules(), is_deleting=True)
    assert not pays_for(rules, is_deleting=True)
    assert pays_for(rules, is_deleting=False)


@given(
    st.lists(
        st.tuples(
            st.booleans(), NAMES, st.sampled_from(["a", "x"]), st.lists(st.sampled_from(["a", "x", "y"]), max_size=3)
        ),
        max_size=12,
    )
)
def test_a_map_that_is_changed_answers_like_one_made_anew(steps: list[tuple[bool, str, str, list[str]]]) -> None:
    changed = QuotaMap()
    there: dict[tuple[str, str], QuotaClaim] = {}
    for is_put, name, namespace, serves in steps:
        if is_put:
            there[name, namespace] = QuotaClaim(name, namespace, tuple(serves))
            changed.put(there[name, namespace])
        else:
            there.pop((name, namespace), None)
            changed.drop(name, namespace)
    fresh = QuotaMap(there.values())
    for namespace in ("a", "x", "y"):
        for label in (None, "a", "b", "c"):
            assert changed.group_of(label, namespace) == fresh.group_of(label, namespace)
    for name in ("a", "b", "c", "x"):
        assert changed.served_by(name) == fresh.served_by(name)
