"""Gangs: their settings are a function of what STATE shows, whoever came first and whoever restarted."""

from __future__ import annotations

from berth.contracts import names
from berth.contracts.state import PodGroup
from berth.placement_solver.core.groups import Gangs
from berth.testing.builders import pod


def test_a_solver_that_stayed_sees_the_gang_of_one_that_restarted() -> None:
    """Who decides a gang is a function of its group: two that see another group each leave it to the other."""
    ours = pod("p").gang("g", 2).build(1)
    listed = {names.ANNOTATION_GANG_GROUPS: '["default/g","default/h"]'}
    group = PodGroup(namespace="default", name="g", uid="x", version=1, min_member=2, annotations=listed)
    stayed, restarted = Gangs(), Gangs()
    stayed.see_group("default", "g", group)
    for gangs in (stayed, restarted):
        gangs.see(("default", "p"), ours, decided=False)
    stayed.see_group("default", "g", None)
    assert stayed.group_of("default/g") == restarted.group_of("default/g") == "default/g"
    assert stayed.gangs["default/g"].config == restarted.gangs["default/g"].config


def test_the_settings_of_members_do_not_depend_on_who_came_first() -> None:
    members = [pod(name).gang("g", count).build(1) for name, count in (("a", 2), ("b", 3))]
    one, other = Gangs(), Gangs()
    for gangs, order in ((one, members), (other, members[::-1])):
        for each in order:
            gangs.see((each.namespace, each.name), each, decided=False)
    assert one.gangs["default/g"].config == other.gangs["default/g"].config
    one.see(("default", "a"), None, decided=False)
    assert one.gangs["default/g"].config.min_member == 3
