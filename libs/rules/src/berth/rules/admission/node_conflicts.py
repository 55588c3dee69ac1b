"""Labels of a node: with them it must not match two strategies of one kind."""

from __future__ import annotations

from berth.rules.admission.draft import texts_in
from berth.rules.admission.seam import Case


def run(case: Case) -> None:
    """The rule. A node that has kept its labels is left alone: nobody has to repair it to write something else."""
    before, now = (texts_in(item, "metadata", "labels") for item in (case.request.old_object or {}, case.draft.now))
    if before == now:
        return
    selectors = case.views.node_selectors
    stood = dict(selectors.conflicts(before))
    for key, strategies in selectors.conflicts(now):
        if stood.get(key) != strategies:
            message = f"with these the node matches several strategies of {key}: {', '.join(strategies[:5])}"
            case.refuse("ExistNodeConfict", "metadata.labels", message)
