"""Paths, answers, back-off, bodies: everything without a connection."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.kube import (
    DEVICES,
    LEASES,
    NODES,
    PODS,
    RESERVATIONS,
    Answer,
    Backoff,
    KubeSettings,
    ObjectRef,
    Resource,
    event,
)
from berth.kube.answer import answer_of
from berth.kube.bodies import binding, delete_options, eviction


@pytest.mark.parametrize(
    ("resource", "arguments", "path"),
    [
        (PODS, (), "/api/v1/pods"),
        (PODS, ("ns", "p", "binding"), "/api/v1/namespaces/ns/pods/p/binding"),
        (NODES, ("", "n1", "status"), "/api/v1/nodes/n1/status"),
        (LEASES, ("ns", "l"), "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l"),
        (RESERVATIONS, ("", "r"), "/apis/scheduling.koordinator.sh/v1alpha1/reservations/r"),
        (DEVICES, (), "/apis/scheduling.koordinator.sh/v1alpha1/devices"),
        (PODS, ("ns", "a?b#c"), "/api/v1/namespaces/ns/pods/a%3Fb%23c"),
    ],
)
def test_paths(resource: Resource, arguments: tuple[str, ...], path: str) -> None:
    assert resource.path(*arguments) == path


@pytest.mark.parametrize(
    ("resource", "arguments"),
    [
        (PODS, ("ns", "..")),
        (PODS, ("..", "p")),
        (PODS, ("ns", "a/b")),
        (PODS, ("ns", "%2e%2e")),
        (PODS, ("", "p")),
        (NODES, ("ns", "n")),
        (NODES, ("", "n" * 254)),
    ],
)
def test_names_that_would_lead_elsewhere_are_refused(resource: Resource, arguments: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"name|namespace"):
        resource.path(*arguments)


@pytest.mark.parametrize(
    ("status", "ok", "unknown", "repeat"),
    [
        (0, False, True, True),
        (200, True, False, False),
        (201, True, False, False),
        (401, False, False, True),
        (403, False, False, True),
        (404, False, False, False),
        (409, False, False, False),
        (422, False, False, False),
        (408, False, False, True),
        (425, False, False, True),
        (429, False, False, True),
        (500, False, True, True),
        (504, False, True, True),
    ],
)
def test_what_an_answer_means(status: int, ok: bool, unknown: bool, repeat: bool) -> None:
    answer = Answer(status)
    assert (answer.ok, answer.unknown, answer.repeat) == (ok, unknown, repeat)


def test_a_refusal_carries_reason_message_and_time_to_wait() -> None:
    body = json.dumps(
        {"reason": "TooManyRequests", "message": "slow down", "details": {"retryAfterSeconds": 7}}
    ).encode()
    from_header = answer_of(429, body, "Too Many Requests", "3")
    assert (from_header.reason, from_header.message, from_header.retry_after_s) == ("TooManyRequests", "slow down", 3.0)
    assert answer_of(429, body, "", None).retry_after_s == 7.0
    assert answer_of(429, b"<html>", "Too Many Requests", "soon").retry_after_s is None
    assert answer_of(503, b"<html>", "Bad Gateway", None).message == "Bad Gateway"
    assert answer_of(429, b"", "", "99999999999").retry_after_s == 300.0
    assert answer_of(429, b'{"details":{"retryAfterSeconds":-5}}', "", None).retry_after_s is None


@given(seed=st.integers(0, 1000), tries=st.integers(1, 30), asked=st.none() | st.floats(0, 1e6))
def test_back_off_grows_within_its_cap_and_honours_the_server(seed: int, tries: int, asked: float | None) -> None:
    backoff = Backoff(random.Random(seed), base_s=0.2, cap_s=30.0)
    for attempt in range(tries):
        at_least = 0.0 if asked is None else min(asked, 300.0)
        wait_s = backoff.next(asked)
        assert at_least <= wait_s <= at_least + min(0.2 * 2**attempt, 30.0)
    backoff.reset()
    assert backoff.next() <= 0.2


def test_a_binding_carries_node_annotations_and_guards() -> None:
    body = binding("ns", "p", uid="u", version="7", node="n1", annotations={"a": "b"})
    assert body["metadata"] == {
        "namespace": "ns",
        "name": "p",
        "uid": "u",
        "resourceVersion": "7",
        "annotations": {"a": "b"},
    }
    assert body["target"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    assert "annotations" not in binding("ns", "p", uid="u", version="7", node="n1", annotations={})["metadata"]


def test_evictions_and_deletions_carry_preconditions() -> None:
    assert eviction("ns", "p", uid="u")["deleteOptions"]["preconditions"] == {"uid": "u"}
    assert delete_options(uid="u", version="3", grace_s=0) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "3"},
        "gracePeriodSeconds": 0,
    }
    assert "preconditions" not in delete_options()
    assert delete_options(uid="u", dry_run=True)["dryRun"] == ["All"]
    assert "dryRun" not in delete_options(uid="u")


@given(name=st.text("abc-.", min_size=1, max_size=253), message=st.text(max_size=3000))
def test_events_fit_the_limits_of_the_server(name: str, message: str) -> None:
    about = ObjectRef("v1", "Pod", "ns", name, "u")
    body = event(
        about, reason="R", message=message, warning=True, component="c", instance="i", now=0.0, token="0123456789ab"
    )
    assert len(body["metadata"]["name"]) <= 253
    assert len(body["message"]) <= 1024
    assert body["metadata"]["namespace"] == body["involvedObject"]["namespace"] == "ns"
    assert body["firstTimestamp"] == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"url": "localhost:1"}, "url"),
        ({"connections": 0}, "connections"),
        ({"timeout_s": float("nan")}, "timeout_s"),
        ({"token": "a", "token_file": "b"}, "token"),
    ],
)
def test_settings_name_their_problems(settings: dict[str, object], field: str) -> None:
    assert KubeSettings(**settings).problems()[0].startswith(field)  # type: ignore[arg-type]


def test_a_watch_rests_for_no_longer_than_what_it_brought_is_worth() -> None:
    settings = KubeSettings(watch_pause_s=0.02)
    assert [settings.rest_s(lines) for lines in (0, 1, 5, 1000)] == [0.0, 0.002, 0.01, 0.02]
    assert KubeSettings().rest_s(1000) == 0.0


def test_settings_do_not_show_the_token() -> None:
    assert "secret" not in repr(KubeSettings(url="http://x", token="secret"))


STATUS = b'{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"%s","code":%d}'


@pytest.mark.parametrize(
    ("status", "body", "repeat"),
    [
        (400, b"<html>", True),
        (404, b"404 page not found", True),
        (405, b"", True),
        (422, b"{}", True),
        (400, b'{"code":400,"message":"upstream"}', True),
        (405, b'{"reason":"no route"}', True),
        (413, b"<html>", False),
        (431, b"", False),
        (400, STATUS % (b"BadRequest", 400), False),
        (404, STATUS % (b"NotFound", 404), False),
        (422, STATUS % (b"Invalid", 422), False),
        (418, STATUS % (b"", 418), False),
        (403, STATUS % (b"Forbidden", 403), True),
    ],
)
def test_a_refusal_is_final_only_in_the_words_of_an_api_server(status: int, body: bytes, repeat: bool) -> None:
    assert answer_of(status, body, "", None).repeat is repeat


def test_a_page_says_neither_that_the_object_has_changed_nor_that_a_version_is_too_old() -> None:
    assert not answer_of(409, b"<html>", "Conflict", None).conflict
    assert not answer_of(410, b"<html>", "Gone", None).expired
    assert answer_of(409, STATUS % (b"Conflict", 409), "", None).conflict
    assert answer_of(410, STATUS % (b"Expired", 410), "", None).expired
