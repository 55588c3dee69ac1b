"""structlog without rich, which it imports where it is installed, for tracebacks that are not used here.

That is a fifth of what a service imports, and so of the time that it takes to start.
"""

from __future__ import annotations

import sys

_is_hidden = "rich" not in sys.modules
if _is_hidden:
    sys.modules["rich"] = None  # type: ignore[assignment]  # importing it fails, as where it is not installed
try:
    import structlog
    from structlog.typing import EventDict, ExcInfo, FilteringBoundLogger, Processor, WrappedLogger
finally:
    if _is_hidden:
        del sys.modules["rich"]

__all__ = ["EventDict", "ExcInfo", "FilteringBoundLogger", "Processor", "WrappedLogger", "structlog"]
