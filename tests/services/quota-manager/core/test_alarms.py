"""Events are said once, when they last."""

from berth.quota_manager.core.alarms import Alarms, Overuse
from berth.quota_manager.core.group import Problem


def test_overuse_is_announced_when_it_lasts_and_when_it_ends():
    alarms = Alarms(5.0)
    alarms.measure("a", {"cpu": 7, "gpu": 9}, {"cpu": 5, "memory": 1}, now=0.0)
    assert alarms.overuse(4.0) == []
    alarms.measure("a", {"cpu": 8}, {"cpu": 5}, now=4.5)
    assert alarms.overuse(5.0) == [Overuse("a", {"cpu": 3})]
    assert alarms.overuse(60.0) == []
    assert alarms.over == 1
    alarms.measure("a", {"cpu": 5}, {"cpu": 5}, now=61.0)
    assert alarms.overuse(61.0) == [Overuse("a", {})]
    assert alarms.overuse(62.0) == []


def test_a_short_overuse_is_nobodys_business():
    alarms = Alarms(5.0)
    alarms.measure("a", {"cpu": 7}, {"cpu": 5}, now=0.0)
    alarms.measure("a", {"cpu": 5}, {"cpu": 5}, now=3.0)
    assert alarms.overuse(9.0) == []


def test_a_group_that_is_gone_is_over_nothing():
    alarms = Alarms(0.0)
    alarms.measure("a", {"cpu": 7}, {"cpu": 5}, now=0.0)
    assert alarms.overuse(0.0) == [Overuse("a", {"cpu": 2})]
    alarms.forget_all_but(["b"])
    assert alarms.overuse(1.0) == [Overuse("a", {})]


def test_problems_are_said_when_they_are_new():
    alarms = Alarms(0.0)
    first, second = Problem("ns/a", "f", "m"), Problem("ns/a", "g", "n")
    assert alarms.refusals([first]) == {"ns/a": (first,)}
    assert alarms.refusals([first]) == {}
    assert alarms.refusals([first, second]) == {"ns/a": (first, second)}
    assert alarms.refusals([]) == {}
    assert alarms.refusals([first]) == {"ns/a": (first,)}
