"""Starts admission-webhook: `python -m berth.admission_webhook`."""

import sys

from berth.admission_webhook.settings import SERVICE, Settings
from berth.admission_webhook.shell import main
from berth.runtime import run

if __name__ == "__main__":
    sys.exit(run(SERVICE, Settings, main))
