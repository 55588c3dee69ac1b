"""Which quota group pays for which pod, as QUOTA is now.

A bound pod that carries the name of its group keeps it; for the others the answer changes as groups come and go.
"""

from __future__ import annotations

from berth.contracts import names
from berth.contracts.state import Pod
from berth.placement_solver.core.quotas import Quotas
from berth.transaction.book import Book


class Payers:
    """Asks the quotas, and has bound pods charged anew when the answer may be another."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas

    def of(self, pod: Pod) -> tuple[str, str] | None:
        """Tree and name of the group that pays for a pod; None: nobody does."""
        return self._quotas.group_of(pod.template.labels.get(names.LABEL_QUOTA_NAME), pod.namespace)

    def named(self, pod: Pod) -> str:
        """The same as one text, `tree/name`, as claims have it; empty without one."""
        group = self.of(pod)
        return "/".join(group) if group else ""

    def settle(self, book: Book) -> None:
        """Groups came or went: ask again who pays for bound pods that do not say so themselves."""
        if not self._quotas.mapping_changed:
            return
        self._quotas.mapping_changed = False
        for name, pod in book.pods.items():
            if pod.node and names.ANNOTATION_QUOTA not in pod.template.annotations:
                book.refresh(name)
