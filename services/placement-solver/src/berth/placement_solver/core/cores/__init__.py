"""The CPUs and NUMA nodes of the nodes as the solver keeps them: who holds what of one node, and columns over all.

Which CPUs a pod gets on one node, and how much of which NUMA node, is :mod:`berth.rules.cpus` and
:mod:`berth.rules.numa`.
"""

from berth.placement_solver.core.cores.asked import CoresAsked, Known, Placed, Verdict
from berth.placement_solver.core.cores.held import Holder, holder_of
from berth.placement_solver.core.cores.make import Make
from berth.placement_solver.core.cores.store import Cores

__all__ = ["Cores", "CoresAsked", "Holder", "Known", "Make", "Placed", "Verdict", "holder_of"]
