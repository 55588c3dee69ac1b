"""The engine keeps by differences what `solve` computes from scratch."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.services.worlds.quota.definition import Asking, solve

from berth.quota_manager.core.book import Claim, ClassKey
from berth.quota_manager.core.engine import Engine, Rules
from berth.quota_manager.core.group import GroupSpec
from berth.quota_manager.core.objects import PodLabels, PodTemplate, PodView, read_pod
from berth.rules.quota_of_pod import DEFAULT_GROUP, ROOT_GROUP, SYSTEM_GROUP
from berth.testing.vectors import cases


def without_zeros(amounts):
    return {key: amount for key, amount in amounts.items() if amount}


def claim(amounts, *, assigned=False, non_preemptible=False):
    return Claim(tuple(sorted(amounts.items())), assigned, non_preemptible)


@pytest.mark.parametrize("case", cases("quota/quota_tree_runtime"))
def test_a_tree_settles_to_the_reference(case):
    wanted = case["given"]
    engine = Engine(Rules(scales_min=wanted["scaleMin"], guarantees_use=wanted["guaranteeUsage"]))
    engine.put_node("n", wanted["total"])
    for quota in wanted["quotas"]:
        name = quota["name"]
        spec = GroupSpec(
            name=name,
            parent="" if quota["parent"] == "root" else quota["parent"],
            is_parent=True,
            max=quota["max"],
            min=quota.get("min", {}),
            weight=quota.get("weight"),
            lends=quota["lend"],
        )
        engine.put_quota(name, spec)
        used, asked = quota.get("selfUsed", {}), quota.get("selfRequest", {})
        engine.book.put(f"{name}-running", ClassKey(name, ""), claim(used, assigned=True))
        waiting = {key: amount - used.get(key, 0) for key, amount in asked.items()}
        engine.book.put(f"{name}-waiting", ClassKey(name, ""), claim(waiting))
    engine.settle()
    fields = {"request": "request", "autoScaleMin": "effective_min", "runtime": "runtime"}
    fields |= {"allocated": "allocated", "guaranteed": "guaranteed"}
    for name, expected in case["expect"]["quotas"].items():
        for field, amounts in expected.items():
            actual = getattr(engine.forest.groups[name], fields[field])
            assert without_zeros(actual) == without_zeros(amounts), (name, field)


@pytest.mark.parametrize("case", cases("quota/scaled_min"))
def test_a_min_is_scaled(case):
    given = case["given"]
    engine = Engine()
    engine.put_node("n", given["total"])
    for sibling in given["siblings"]:
        least, keeps = sibling["min"], not sibling["scalable"]
        engine.put_quota(sibling["name"], GroupSpec(name=sibling["name"], max=least, min=least, keeps_min=keeps))
    engine.settle()
    group = engine.forest.groups[given["quota"]]
    assert group.effective_min == (case["expect"]["scaledMin"] or group.spec.min)  # null: it is not scaled at all


@pytest.mark.parametrize("case", cases("quota/accounting"))
def test_pods_are_counted(case):
    engine = Engine()
    for quota in case["given"]["quotas"]:
        spec = GroupSpec(
            name=quota["name"], parent=quota.get("parent", ""), is_parent=quota["isParent"], max=quota["max"]
        )
        engine.put_quota(quota["name"], spec)
    for index, pod in enumerate(case["given"]["pods"]):
        labels = PodLabels(quota=pod["quota"], preemptible="false" if pod.get("nonPreemptible") else "")
        seen = PodView(
            namespace="ns",
            template=PodTemplate(requests=pod["request"], labels=labels),
            node=pod.get("nodeName", ""),
            phase=pod.get("phase", "Pending"),
        )
        booked = read_pod(seen)
        if booked is not None:
            engine.book.put(str(index), *booked)
    engine.settle()
    groups = {**engine.forest.groups, ROOT_GROUP: engine.forest.roots[""]}
    fields = {"used": "used", "request": "request"}
    fields |= {"nonPreemptibleUsed": "np_used", "nonPreemptibleRequest": "np_request"}
    for name, expected in case["expect"]["quotas"].items():
        for field, amounts in expected.items():
            assert without_zeros(getattr(groups[name], fields[field])) == without_zeros(amounts), (name, field)


@pytest.mark.parametrize("case", cases("quota/tree_totals"))
def test_separate_trees_take_from_the_default_tree(case):
    engine = Engine()
    engine.put_node("n", case["given"]["nodeTotal"])
    for step, expected in zip(case["given"]["steps"], case["expect"]["states"], strict=True):
        if step["op"] == "set":
            spec = GroupSpec(
                name=f"{step['tree']}-top",
                tree=step["tree"],
                is_root=True,
                is_parent=True,
                total=step["total"],
                ignores_default_tree=step.get("ignoreDefaultTree", False),
            )
            engine.put_quota(step["tree"], spec)
        else:
            engine.remove_quota(step["tree"])
        engine.settle()
        assert engine.forest.roots[""].runtime == expected["default"]
        trees = {tree: root.runtime for tree, root in engine.forest.roots.items() if tree}
        assert trees == expected["trees"]


def test_pods_of_the_default_and_system_group_shrink_the_total():
    engine = Engine()
    engine.put_node("n", {"cpu": 10_000, "memory": 100, "nvidia.com/gpu": 8})
    engine.book.put(
        "a", ClassKey("", "anywhere"), claim({"cpu": 1000, "memory": 10, "nvidia.com/gpu": 1}, assigned=True)
    )
    engine.book.put("b", ClassKey(SYSTEM_GROUP, ""), claim({"cpu": 500}, assigned=True))
    engine.book.put("c", ClassKey("", "elsewhere"), claim({"cpu": 700}))
    engine.settle()
    assert engine.forest.roots[""].runtime == {"cpu": 8500, "memory": 90, "nvidia.com/gpu": 8}
    assert engine.forest.groups[DEFAULT_GROUP].request["cpu"] == 1700
    engine.put_quota("x", GroupSpec(name="team", namespaces=("anywhere",), max={"cpu": 5000}))
    engine.settle()
    assert engine.forest.roots[""].runtime["cpu"] == 9500
    assert engine.forest.groups["team"].used == {"cpu": 1000}
    engine.remove_quota("x")
    engine.settle()
    assert engine.forest.roots[""].runtime == {"cpu": 8500, "memory": 90, "nvidia.com/gpu": 8}


def test_only_what_changed_is_reported():
    engine = Engine()
    engine.put_node("n", {"cpu": 10_000})
    for name in "abc":
        engine.put_quota(name, GroupSpec(name=name, max={"cpu": 8000}, min={"cpu": 1000}))
    assert engine.settle().limits >= {"a", "b", "c"}
    engine.book.put("p", ClassKey("a", ""), claim({"cpu": 300}))
    settled = engine.settle()
    assert settled.limits == {"a"}
    assert settled.figures == {"a", ROOT_GROUP}
    assert not settled.rebuilt
    engine.book.put("p", ClassKey("a", ""), claim({"cpu": 300}))
    engine.put_quota("a", GroupSpec(name="a", max={"cpu": 8000}, min={"cpu": 1000}))
    engine.put_node("n", {"cpu": 10_000})
    assert not engine.settle()
    engine.book.put("q", ClassKey("b", ""), claim({"cpu": 20_000}))
    assert engine.settle().limits == {"b"}
    engine.book.put("p", ClassKey("a", ""), claim({"cpu": 1300}))
    assert engine.settle().limits == {"a"}, "b is at its max and takes nothing from a"
    engine.book.put("r", ClassKey("c", ""), claim({"cpu": 5_000}))
    assert engine.settle().limits == {"b", "c"}


def test_a_resource_disappears_with_its_last_node():
    engine = Engine(Rules())
    engine.put_quota("a", GroupSpec(name="a", max={"gpu": 8}, min={"gpu": 4}))
    engine.book.put("p", ClassKey("a", ""), claim({"gpu": 6}))
    engine.put_node("n", {"gpu": 8})
    engine.put_node("m", {"gpu": 0})
    engine.settle()
    assert engine.forest.groups["a"].runtime == {"gpu": 6}
    engine.remove_node("n")
    engine.settle()
    assert engine.forest.groups["a"].runtime == {"gpu": 0}
    engine.remove_node("m")
    engine.remove_node("m")
    engine.settle()
    fresh = Engine(Rules())
    fresh.put_quota("a", GroupSpec(name="a", max={"gpu": 8}, min={"gpu": 4}))
    fresh.book.put("p", ClassKey("a", ""), claim({"gpu": 6}))
    fresh.settle()
    assert engine.forest.groups["a"].runtime == fresh.forest.groups["a"].runtime


# --- laws ------------------------------------------------------------------------------------------------------------

KEYS = ("cpu", "gpu")
NAMES = tuple("abcdefg")
amounts = st.dictionaries(st.sampled_from(KEYS), st.integers(0, 60), max_size=2)


@st.composite
def specs(draw):
    """A valid forest in one tree: parents come before children; min within max."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    found = []
    for index, name in enumerate(names):
        parent = draw(st.sampled_from(("", *names[:index])))
        ceiling = {key: draw(st.integers(0, 100)) for key in draw(st.sets(st.sampled_from(KEYS), min_size=1))}
        floor = {key: draw(st.integers(0, limit)) for key, limit in ceiling.items() if draw(st.booleans())}
        weight = draw(st.none() | amounts)
        found.append(
            GroupSpec(
                name=name,
                parent=parent,
                is_parent=True,
                max=ceiling,
                min=floor,
                weight=weight,
                lends=draw(st.booleans()),
                guarantees=draw(st.booleans()),
                keeps_min=draw(st.booleans()),
            )
        )
    return found


claims = st.builds(
    lambda asked, assigned, fixed: claim(asked, assigned=assigned, non_preemptible=fixed),
    amounts,
    st.booleans(),
    st.booleans(),
)
pods = st.tuples(st.just("pod"), st.integers(0, 9), st.sampled_from(NAMES), claims | st.none())
nodes = st.tuples(st.just("node"), st.integers(0, 3), amounts | st.none())
quotas = st.tuples(st.just("quotas"), specs())
settles = st.tuples(st.just("settle"))
histories = st.lists(pods | pods | nodes | quotas | settles, max_size=40)
rules = st.builds(lambda scales, guarantees: Rules(scales_min=scales, guarantees_use=guarantees), *[st.booleans()] * 2)


def play(engine, history):
    """Feeds a history to an engine; returns what is true at its end."""
    final_pods, final_nodes, final_specs = {}, {}, []
    for step in history:
        if step[0] == "pod":
            _, index, name, booked = step
            if booked is None:
                final_pods.pop(index, None)
                engine.book.remove(str(index))
            else:
                final_pods[index] = (name, booked)
                engine.book.put(str(index), ClassKey(name, ""), booked)
        elif step[0] == "node":
            _, index, offered = step
            if offered is None:
                final_nodes.pop(index, None)
                engine.remove_node(str(index))
            else:
                final_nodes[index] = offered
                engine.put_node(str(index), offered)
        elif step[0] == "quotas":
            for spec in final_specs:
                if spec.name not in {other.name for other in step[1]}:
                    engine.remove_quota(spec.name)
            final_specs = step[1]
            for spec in final_specs:
                engine.put_quota(spec.name, spec)
        else:
            engine.settle()
    engine.settle()
    return final_pods, final_nodes, final_specs


def expected(final_pods, final_nodes, final_specs, used_rules):
    by_name = {spec.name: spec for spec in final_specs}
    total, default_used = {}, {}
    for offered in final_nodes.values():
        for key, amount in offered.items():
            total[key] = total.get(key, 0) + amount
    asked = {name: {} for name in by_name}
    held = {name: {} for name in by_name}
    for name, booked in final_pods.values():
        for key, amount in booked.amounts:
            if name not in by_name:
                if booked.is_assigned and key == "cpu" and amount:  # the default group tracks cpu and memory
                    default_used[key] = default_used.get(key, 0) + amount
            elif key in by_name[name].max:
                asked[name][key] = asked[name].get(key, 0) + amount
                if booked.is_assigned:
                    held[name][key] = held[name].get(key, 0) + amount
    for key, amount in default_used.items():
        total[key] = total.get(key, 0) - amount
    groups = [
        Asking(
            name=spec.name,
            parent=spec.parent or None,
            max=spec.max,
            min=spec.min,
            weight=spec.weight,
            lends=spec.lends,
            guarantees=spec.guarantees,
            keeps_min=spec.keeps_min,
            self_request=asked[spec.name],
            self_used=held[spec.name],
        )
        for spec in final_specs
    ]
    return solve(groups, total, scales_min=used_rules.scales_min, guarantees_use=used_rules.guarantees_use)


@given(histories, rules)
@settings(max_examples=150, deadline=None)
def test_differences_arrive_where_a_fresh_computation_does(history, used_rules):
    engine = Engine(used_rules)
    end = play(engine, history)
    figures = expected(*end, used_rules)
    actual = engine.forest.groups
    assert actual.keys() == figures.keys() | {SYSTEM_GROUP, DEFAULT_GROUP}
    for name, wanted in figures.items():
        for field in ("request", "limited", "allocated", "guaranteed", "runtime", "effective_min"):
            assert without_zeros(getattr(actual[name], field)) == without_zeros(getattr(wanted, field)), (name, field)
        assert actual[name].runtime.keys() == wanted.runtime.keys()


@given(specs(), nodes, st.lists(pods | pods | nodes, min_size=1, max_size=8), rules)
@settings(max_examples=80, deadline=None)
def test_every_single_piece_of_news_is_carried_through_the_whole_tree(tree, node, news, used_rules):
    engine = Engine(used_rules)
    history = [("quotas", tree), node]
    play(engine, history)
    for item in news:
        history.append(item)
        play(engine, [item])
        figures = expected(*play(Engine(used_rules), history), used_rules)
        for name, wanted in figures.items():
            group = engine.forest.groups[name]
            for field in ("request", "runtime", "effective_min", "guaranteed"):
                assert without_zeros(getattr(group, field)) == without_zeros(getattr(wanted, field)), (name, field)


@given(histories, rules)
@settings(max_examples=100, deadline=None)
def test_sums_agree_with_a_recount_of_single_pods(history, used_rules):
    engine = Engine(used_rules)
    final_pods, _, _ = play(engine, history)
    for (name, _, _), pod_class in engine.book.classes.items():
        booked = [each for of, each in final_pods.values() if of == name]
        assigned = [each for each in booked if each.is_assigned]
        assert pod_class.pods == len(booked)
        assert pod_class.sums == (
            added(booked),
            added(assigned),
            added([each for each in booked if each.is_non_preemptible]),
            added([each for each in assigned if each.is_non_preemptible]),
        )
    assert {name for name, _ in final_pods.values()} <= {key.label for key in engine.book.classes}


def added(booked):
    total = Counter()
    for each in booked:
        total.update(dict(each.amounts))
    return without_zeros(total)


@given(histories, rules, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_order_of_news_does_not_matter(history, used_rules, random):
    first = Engine(used_rules)
    final_pods, final_nodes, final_specs = play(first, history)
    news = [("pod", index, *pod) for index, pod in final_pods.items()]
    news += [("node", index, offered) for index, offered in final_nodes.items()]
    news += [("quota", spec) for spec in final_specs]
    news += [("settle",)] * 3
    random.shuffle(news)
    second = Engine(used_rules)
    for item in news:
        if item[0] == "quota":
            second.put_quota(item[1].name, item[1])
        else:
            play(second, [item]) if item[0] != "settle" else second.settle()
    second.settle()
    for name, group in first.forest.groups.items():
        assert second.forest.groups[name].runtime == group.runtime
        assert without_zeros(second.forest.groups[name].request) == without_zeros(group.request)
        assert without_zeros(second.forest.groups[name].used) == without_zeros(group.used)


@given(histories, st.booleans())
@settings(max_examples=120, deadline=None)
def test_runtimes_keep_the_promises(history, scales):
    engine = Engine(Rules(scales_min=scales))
    play(engine, [_without_guarantees(step) for step in history])
    for parent in (engine.forest.roots[""], *engine.forest.groups.values()):
        for key, children in parent.sharers.items():
            total = parent.runtime.get(key, 0)
            kept = 0
            for child in children:
                runtime, asked = child.runtime[key], child.limited.get(key, 0)
                floor = child.effective_min.get(key, 0)
                assert 0 <= runtime <= child.spec.max[key]
                assert runtime >= min(asked, floor)
                assert runtime <= max(asked, floor)
                if not child.lends:
                    assert runtime >= floor
                kept += min(asked, floor) if child.lends else floor
            handed_out = sum(child.runtime[key] for child in children)
            assert handed_out <= max(total, kept)
            if scales and key in parent.runtime:
                assert handed_out <= max(total, 0)


def _without_guarantees(step):
    """What is guaranteed is kept even above the total, and above the max; so is a min that is not scaled."""
    if step[0] != "quotas":
        return step
    return "quotas", [replace(spec, guarantees=False, keeps_min=False) for spec in step[1]]


def test_use_that_came_back_to_nothing_leaves_no_trace_in_the_total():
    engine = Engine()
    engine.put_quota("a", GroupSpec(name="a", max={"cpu": 8}, min={"cpu": 4}, lends=False))
    engine.settle()
    assert engine.forest.groups["a"].runtime == {"cpu": 4}
    engine.book.put("p", ClassKey("", "anywhere"), claim({"cpu": 1}, assigned=True))
    engine.settle()
    assert engine.forest.roots[""].runtime == {"cpu": -1}
    assert engine.forest.groups["a"].runtime == {"cpu": 0}
    engine.book.remove("p")
    engine.settle()
    assert engine.forest.roots[""].runtime == {}
    assert engine.forest.groups["a"].runtime == {"cpu": 4}
