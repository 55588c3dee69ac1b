"""The notes by which a Reservation takes over pods that run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth.cluster_writer.core.progress import Progress
from berth.cluster_writer.core.take_over_steps import note_step, owners_after, taken_by_another
from berth.contracts import names
from berth.contracts.kube import ReservationOwner
from berth.contracts.ledger import Decision, Step
from berth.contracts.state import Pod, Reservation
from berth.testing.builders import pod
from berth.transaction.book import Book

TAKE = Step(action="take-over", namespace="default", pod="p", pod_uid="uid-p")
LET_GO = Step(action="let-go", namespace="default", pod="p", pod_uid="uid-p")


def decision(*before: Step, name: str = "r") -> Decision:
    return Decision(
        plan="plan",
        namespace="",
        name=name,
        uid=f"uid-{name}",
        attempt=0,
        node="n0",
        pod_version=1,
        basis=1,
        kind="reservation",
        before=list(before),
    )


def running(note: str | None = None, **fields: Any) -> Pod:
    made = pod("p").set(**{"uid": "uid-p", "node": "n0", "phase": "Running", **fields})
    if note is not None:
        made.annotation(names.ANNOTATION_RESERVATION_ALLOCATED, note)
    return made.build(7)


def judged(step: Step, seen: Pod | None, asked: int = 0) -> Any:
    return note_step(decision(step), 0, step, {("default", "p"): seen} if seen else {}, asked)


@pytest.mark.parametrize(
    ("step", "seen", "asked", "progress"),
    [
        (TAKE, running(), 0, Progress.REQUEST),
        (TAKE, running('{"name":"old","uid":"uid-old"}'), 0, Progress.REQUEST),
        (TAKE, running('{"name":"r","uid":"uid-r"}'), 0, Progress.DONE),
        (TAKE, running(), 8, Progress.WAIT),
        (TAKE, None, 0, Progress.REFUSED),
        (TAKE, running(uid="another"), 0, Progress.REFUSED),
        (TAKE, running(phase="Succeeded"), 0, Progress.REFUSED),
        (TAKE, running(node="n1"), 0, Progress.REFUSED),
        (LET_GO, running('{"name":"r","uid":"uid-r"}'), 0, Progress.REQUEST),
        (LET_GO, running('{"name":"old","uid":"uid-old"}'), 0, Progress.DONE),
        (LET_GO, running(), 0, Progress.DONE),
        (LET_GO, None, 0, Progress.DONE),
    ],
)
def test_each_note_is_written_once_and_a_pod_that_is_gone_ends_it(
    step: Step, seen: Pod | None, asked: int, progress: Progress
) -> None:
    assert judged(step, seen, asked).progress is progress


def test_the_note_names_the_reservation_and_is_guarded() -> None:
    written = judged(TAKE, running()).request
    assert (written.resource.plural, written.namespace, written.name) == ("pods", "default", "p")
    metadata = written.body["metadata"]
    assert (metadata["uid"], metadata["resourceVersion"]) == ("uid-p", "7")
    assert json.loads(metadata["annotations"][names.ANNOTATION_RESERVATION_ALLOCATED]) == {"name": "r", "uid": "uid-r"}
    taken_off = judged(LET_GO, running('{"name":"r","uid":"uid-r"}')).request
    assert taken_off.body["metadata"]["annotations"] == {names.ANNOTATION_RESERVATION_ALLOCATED: None}


def test_it_shows_whom_it_takes_over_from_the_beginning() -> None:
    assert owners_after(decision(LET_GO, TAKE)) == [{"namespace": "default", "name": "p", "uid": "uid-p"}]


def test_one_pod_in_two_decisions_is_the_sign_of_a_loss() -> None:
    mine, other = decision(TAKE), decision(TAKE, name="s")
    book = Book(remember=True)
    assert taken_by_another(mine, book) is None
    book.take_overs.see(("", "r"), [mine])
    assert taken_by_another(mine, book) is None
    book.take_overs.see(("", "s"), [other])
    clash = taken_by_another(mine, book)
    assert clash is not None
    assert clash.is_ours
    book.take_overs.see(("", "s"), [])
    assert taken_by_another(mine, book) is None


def test_a_pod_that_draws_on_another_reservation_is_not_taken() -> None:
    book = Book(remember=True)
    own = Reservation(name="own", uid="uid-own", version=1, node="n0", phase="Available", owners=[ReservationOwner()])
    book.see_reservation(("", "own"), own)
    book.see_pod(("default", "p"), running('{"name":"own","uid":"uid-own"}'))
    clash = taken_by_another(decision(TAKE), book)
    assert clash is not None
    assert not clash.is_ours
