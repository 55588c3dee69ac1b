"""Where nodes lie in the network, and how the pods of a gang are gathered there.

`layers` reads the layers of a ClusterNetworkTopology and finds the domains of a node, `spec` what a gang asks for,
`tree` holds all domains of a cluster. `capacity`, `order`, `distribute` and `procedure` are Koordinator's way of
choosing a domain; `gather` begins with its answer and takes another one where that needs fewer domains (`fewest`).
"""
