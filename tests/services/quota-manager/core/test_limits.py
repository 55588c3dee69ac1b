"""What is published, and under which revision."""

import msgspec

from berth.contracts.base import Problem
from berth.contracts.quota import QuotaGroup
from berth.quota_manager.core.book import Claim, ClassKey
from berth.quota_manager.core.engine import Engine
from berth.quota_manager.core.forest import Group
from berth.quota_manager.core.group import GroupSpec
from berth.quota_manager.core.limits import PublishedGroups, frame_message, with_figures
from berth.rules.quota_of_pod import DEFAULT_GROUP


def message_of(
    group: Group, namespaces: list[str], problems: list[Problem], *, uses_runtime: bool = True
) -> QuotaGroup:
    """What is said of a group."""
    return with_figures(frame_message(group, namespaces), group, problems, uses_runtime=uses_runtime)


def engine_with(*specs, request=None):
    engine = Engine()
    engine.put_node("n", {"cpu": 10_000})
    for spec in specs:
        engine.put_quota(spec.name, spec)
    for name, amount in (request or {}).items():
        engine.book.put(name, ClassKey(name, ""), Claim((("cpu", amount),), False, False))
    engine.settle()
    return engine


def test_a_message_says_all_a_solver_needs():
    engine = engine_with(
        GroupSpec(name="p", is_parent=True, max={"cpu": 8000}, min={"cpu": 2000}),
        GroupSpec(name="c", parent="p", max={"cpu": 6000, "gpu": 4}, min={"cpu": 1000}, lends=False),
        request={"c": 3000},
    )
    problem = Problem(field="f", message="m")
    message = message_of(engine.forest.groups["c"], ["ns"], [problem])
    assert message.ancestors == ["p"]
    assert message.limits == ["cpu", "gpu"]
    assert message.runtime == {"cpu": 3000, "gpu": 4}, "only the own max limits what the parent does not name"
    assert message.request == {"cpu": 3000}
    assert (message.parent, message.lends, message.namespaces, message.problems) == ("p", False, ["ns"], [problem])
    assert message_of(engine.forest.groups["p"], [], []).is_parent


def test_the_default_group_limits_nothing_unless_it_has_a_real_ceiling():
    message = message_of(engine_with().forest.groups[DEFAULT_GROUP], [], [])
    assert (message.limits, message.runtime, message.max) == ([], {}, {})
    engine = engine_with(GroupSpec(name=DEFAULT_GROUP, max={"cpu": 5000}))
    message = message_of(engine.forest.groups[DEFAULT_GROUP], [], [])
    assert (message.limits, message.runtime, message.max) == (["cpu"], {"cpu": 5000}, {"cpu": 5000})


def test_without_runtime_the_max_is_the_limit_but_a_detached_group_gets_nothing():
    engine = engine_with(GroupSpec(name="a", max={"cpu": 6000}), GroupSpec(name="b", parent="gone", max={"cpu": 1}))
    assert message_of(engine.forest.groups["a"], [], [], uses_runtime=False).runtime == {"cpu": 6000}
    assert message_of(engine.forest.groups["a"], [], []).runtime == {"cpu": 0}
    assert message_of(engine.forest.groups["b"], [], [], uses_runtime=False).runtime == {"cpu": 0}


def test_what_of_a_min_can_be_honoured_is_said_and_follows_the_total():
    engine = engine_with(*(GroupSpec(name=name, max={"cpu": 20_000}, min={"cpu": 8000}) for name in "ab"))
    assert message_of(engine.forest.groups["a"], [], []).effective_min == {"cpu": 5000}
    engine.put_node("m", {"cpu": 2000})
    assert {"a", "b"} <= engine.settle().limits
    assert message_of(engine.forest.groups["a"], [], []).effective_min == {"cpu": 6000}
    detached = engine_with(GroupSpec(name="d", parent="gone", max={"cpu": 1}, min={"cpu": 1}))
    assert message_of(detached.forest.groups["d"], [], []).effective_min == {}


def wanted(runtime, request=0, **more):
    base = message_of(engine_with(GroupSpec(name="a", max={"cpu": 6000})).forest.groups["a"], [], [])
    return msgspec.structs.replace(base, runtime={"cpu": runtime}, request={"cpu": request}, **more)


def test_a_revision_rises_with_limits_and_only_with_them():
    published_groups = PublishedGroups()
    first = published_groups.successor("k", wanted(5), 100, demand_too=False)
    assert first is not None
    assert first.revision == 100
    assert published_groups.successor("k", wanted(5), 200, demand_too=True) is None
    assert published_groups.successor("k", wanted(5, request=9), 200, demand_too=False) is None
    demand = published_groups.successor("k", wanted(5, request=9), 200, demand_too=True)
    assert demand is not None
    assert (demand.revision, demand.request) == (100, {"cpu": 9})
    risen = published_groups.successor("k", wanted(6, request=9), 200, demand_too=False)
    assert risen is not None
    assert risen.revision == 200
    moved = published_groups.successor("k", wanted(6, request=9, ancestors=["p"]), 201, demand_too=False)
    assert moved is not None
    assert moved.revision == 201


def test_revisions_survive_a_restart_a_deletion_and_a_clock_that_is_behind():
    before = PublishedGroups()
    message = before.successor("k", wanted(5), before.next_revision(5_000), demand_too=True)
    after = PublishedGroups()
    after.saw("k", message)
    assert after.successor("k", wanted(5), after.next_revision(100), demand_too=True) is None
    again = after.successor("k", wanted(7), after.next_revision(100), demand_too=True)
    assert again is not None
    assert again.revision == 5_001
    after.saw("k", None)
    reborn = after.successor("k", wanted(7), after.next_revision(100), demand_too=True)
    assert reborn is not None
    assert reborn.revision == 5_002
    empty = PublishedGroups()
    assert empty.next_revision(6_000) == 6_000, "a lost bucket goes on above what the clock allowed before"


def test_the_echo_of_an_overtaken_write_changes_nothing():
    published_groups = PublishedGroups()
    older = published_groups.successor("k", wanted(5), 1, demand_too=True)
    newer = published_groups.successor("k", wanted(6), 2, demand_too=True)
    published_groups.saw("k", older)
    assert published_groups.messages["k"] == newer
    other = msgspec.structs.replace(newer, revision=9, runtime={"cpu": 1})
    published_groups.saw("k", other)
    ours = published_groups.successor("k", wanted(6), published_groups.next_revision(3), demand_too=True)
    assert ours is not None
    assert ours.revision == 10


def test_a_group_below_another_parent_says_since_when() -> None:
    published_groups = PublishedGroups()
    assert published_groups.successor("k", wanted(5), 100, demand_too=False).moved == 0, "it was never below another"
    there = msgspec.structs.replace(wanted(5), parent="p", ancestors=["p"])
    moved = published_groups.successor("k", there, 200, demand_too=False)
    assert (moved.revision, moved.moved) == (200, 200)
    later = published_groups.successor("k", msgspec.structs.replace(there, max={"cpu": 7}), 300, demand_too=False)
    assert (later.revision, later.moved) == (300, 200)


def test_a_group_in_another_tree_says_where_it_was_and_those_below_it_do_not() -> None:
    published_groups = PublishedGroups()
    top, below = wanted(5, name="top"), wanted(5, name="below", parent="top", ancestors=["top"])
    for each in (top, below):
        published_groups.successor(f"a/{each.name}", each, 100, demand_too=False)
    there = [msgspec.structs.replace(each, tree="t") for each in (top, below)]
    moved = [published_groups.successor(f"t/{each.name}", each, 200, demand_too=False) for each in there]
    assert [(each.moved, each.former_trees) for each in moved] == [(200, [""]), (0, [])]
    later = published_groups.successor(
        "t/top", msgspec.structs.replace(there[0], max={"cpu": 7}), 300, demand_too=False
    )
    assert (later.moved, later.former_trees) == (200, [""])
    for name in ("top", "below"):
        published_groups.saw(f"t/{name}", None)
    back = published_groups.successor("a/top", top, 400, demand_too=False)
    assert (back.moved, back.former_trees) == (400, ["t"]), "also when it was gone meanwhile"
