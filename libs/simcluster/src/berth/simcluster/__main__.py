"""`python -m berth.simcluster`: serve a simulated cluster, or write manifests of one."""

import sys

from berth.simcluster.commands import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
