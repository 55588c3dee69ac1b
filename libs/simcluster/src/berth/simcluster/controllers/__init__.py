"""What of a controller-manager the cluster has: each controller looks at one object and does what is missing.

A controller is a function of the store and a key, without clock or randomness of its own; `Controllers` runs them all.
"""

from berth.simcluster.controllers.runner import Controllers, ControllerSettings

__all__ = ["ControllerSettings", "Controllers"]
