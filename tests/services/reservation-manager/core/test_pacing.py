"""How often a status is asked for."""

from __future__ import annotations

from berth.reservation_manager.core.pacing import A_SECOND_MAX, PAUSE_S, StatusPace


def test_an_object_waits_but_for_its_phase():
    pace = StatusPace()
    assert pace.admit("r", 10.0, is_phase=False)
    assert not pace.admit("r", 10.0 + PAUSE_S / 2, is_phase=False)
    assert pace.due(10.0 + PAUSE_S / 2) == []
    assert pace.due(10.0 + PAUSE_S) == ["r"]
    assert pace.admit("r", 11.5, is_phase=True)
    assert pace.due(12.5) == [], "its phase was told with the rest"
    assert not pace.admit("r", 12.5, is_phase=False)
    pace.settle("r")
    assert pace.due(100.0) == []


def test_the_service_has_a_limit_whatever_it_is_about():
    pace = StatusPace()
    admitted = [pace.admit(f"r{number}", 10.2, is_phase=True) for number in range(A_SECOND_MAX + 5)]
    assert admitted.count(True) == A_SECOND_MAX
    assert not pace.take(10.9)
    assert len(pace.due(11.0)) == 5
    assert all(pace.admit(name, 11.0, is_phase=True) for name in pace.due(11.0))


def test_who_is_gone_is_not_due():
    pace = StatusPace()
    pace.admit("r", 10.0, is_phase=False)
    pace.admit("r", 10.0, is_phase=False)
    pace.forget("r")
    assert pace.due(100.0) == []
