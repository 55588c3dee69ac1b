"""Which quota group pays for which pod, as QUOTA is now.

The answer changes as groups come, go and move, and with the switches of quota-manager; `berth.rules.quota_payer` gives
it.
"""

from __future__ import annotations

from collections.abc import Mapping

from berth.contracts import names
from berth.contracts.quota import PodCharge
from berth.contracts.state import Pod
from berth.placement_solver.core.quotas import Quotas
from berth.placement_solver.core.surcharges import Surcharges, surcharge_in
from berth.resources.amounts import Amounts
from berth.rules.quota_payer import charged, group_in, pays_for, uncharged
from berth.transaction.book import Book


class Payers:
    """Asks the quotas, and has bound pods charged anew when the answer may be another."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self.surcharges = Surcharges(quotas)

    def of(self, pod: Pod) -> tuple[str, str] | None:
        """Tree and name of the group that pays for a pod that is not bound; None: nobody does."""
        return self._find(pod, "")

    def free_of(self, pod: Pod) -> Amounts:
        """What of its request nobody is charged for."""
        return uncharged(self._quotas.rules, pod.template.overhead)

    def still(self, pod: Pod, payer: tuple[str, str] | None, charge: PodCharge | None) -> bool:
        """Whether this group would pay, and hooks say this."""
        return self.of(pod) == payer and self.surcharges.of(pod, payer) == charge

    def charged_for(self, pod: Pod, payer: tuple[str, str] | None) -> Mapping[str, int]:
        """What this group would pay for a pod that is not bound, as far as it is known."""
        return charged(pod.template.requests, self.free_of(pod), surcharge_in(self.surcharges.of(pod, payer)))

    def charge(self, pod: Pod | None, paid: str) -> tuple[str, Amounts]:
        """Who pays, as `tree/name` (empty: nobody), and what of the request is charged to nobody.

        `pod` as it is seen; None: it is not, and all that is known is who paid at the bind (empty: nobody).
        """
        if pod is None:
            tree = self._quotas.tree_of(group_in(paid))
            return paid if tree is None else f"{tree}/{group_in(paid)}", {}
        group = self._find(pod, paid)
        return "/".join(group) if group else "", self.free_of(pod)

    def settle(self, book: Book) -> None:
        """Groups came, went or moved: ask again who pays for what holds."""
        if not self._quotas.mapping_changed:
            return
        self._quotas.mapping_changed = False
        for claim in [*book.claims(), *(nomination.claim for nomination in book.nominations)]:
            if claim.is_reservation:
                continue
            pod = book.pods.get(claim.name)
            seen = pod if pod is not None and pod.uid == claim.uid else None
            if self.charge(seen, claim.paid) != (claim.quota, claim.uncharged):
                book.refresh(claim.name)

    def _find(self, pod: Pod, paid: str) -> tuple[str, str] | None:
        quotas = self._quotas
        if not pays_for(quotas.rules, is_deleting=pod.deleting):
            return None
        return quotas.group_of(pod.template.labels.get(names.LABEL_QUOTA_NAME), pod.namespace, paid)
