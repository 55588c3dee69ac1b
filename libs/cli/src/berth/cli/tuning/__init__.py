"""Settings of the node cost for a site, found on its own arrivals: read, played, searched, and judged on later ones.

The cluster is left alone: what is found is printed.
"""
