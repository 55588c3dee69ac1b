"""Judging every moment: an observer is shown each ledger message and each change of the cluster, in true order."""

from berth.invariants.observer.observer import Observer
from berth.invariants.observer.sight import Reader
from berth.invariants.observer.verdicts import Violation

__all__ = ["Observer", "Reader", "Violation"]
