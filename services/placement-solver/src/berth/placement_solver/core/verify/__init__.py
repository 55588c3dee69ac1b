"""The independent check of a plan before it is committed, written from the constraints alone."""

from berth.placement_solver.core.verify.verifier import Verifier

__all__ = ["Verifier"]
