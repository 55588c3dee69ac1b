"""Reservations as they are created: profiles apply to them and to their template, as to the pod that it stands for.

The selector of a profile looks at the Reservation's own labels; a profile for namespaces alone is not for it. Labels,
annotations and the patch go to the Reservation, scheduler and priority to its template, whose resources are converted,
so that a Reservation for a batch pod reserves what the pod will ask for.
"""

from __future__ import annotations

from typing import Final

from berth.contracts.names import LABEL_PRIORITY_CLASS, LABEL_QOS
from berth.rules.admission import gates
from berth.rules.admission.classes import class_with_default
from berth.rules.admission.conversion import LENT_AS, convert
from berth.rules.admission.draft import mapping_in, texts_in
from berth.rules.admission.profile_steps import apply, applying
from berth.rules.admission.seam import Case

_SPEC: Final = ("spec", "template", "spec")


def run(case: Case) -> None:
    """The rule. It is called once for a Reservation: its entry is the only one."""
    draft, views = case.draft, case.views
    matched = views.profiles.of_object(draft.labels)
    if not matched:
        return
    applied = applying(matched, case.draw)
    failed = apply(draft, applied, views.priority_classes, spec=_SPEC)
    if failed is not None:
        case.refuse(failed.rule, "", failed.message)
        return
    case.counts["profiles"] += len(applied)
    case.counts["passed over"] += len(matched) - len(applied)
    if gates.KEEPS_RESOURCES in case.gates or any(profile.keeps_resources for profile in matched):
        return
    template = mapping_in(draft.now, "spec", "template")
    marks = {name: text for name, text in draft.labels.items() if name in (LABEL_QOS, LABEL_PRIORITY_CLASS)}
    labels = {**texts_in(template, "metadata", "labels"), **marks}
    pod = {"metadata": {"labels": labels}, "spec": mapping_in(template, "spec")}
    lent_as = LENT_AS.get(class_with_default(pod))
    if lent_as is not None:
        counts, problems = convert(draft, lent_as, spec=_SPEC)
        case.counts.update(counts)
        for problem in problems:
            case.note(problem)
