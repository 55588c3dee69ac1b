"""NUMA nodes: on which of them a pod's CPUs, memory, hugepages and devices lie together, and how much on each.

| module | question |
| --- | --- |
| `policy` | which policy holds for a pod on a node, and which NUMA nodes are filled first? |
| `charges` | what does each pod hold of each NUMA node, and what is left of them? |
| `zone_sets` | which sets of NUMA nodes are looked at? |
| `split` | how much of each chosen NUMA node does a pod get, and which CPUs? |
| `hints` | which sets could hold the pod? What providers say, for CPUs, memory and devices alike |
| `exclusive` | which sets may a pod not use, because of the pods that are there? |
| `merge` | which set satisfies all providers, and does the policy admit the pod? |
| `align` | all of that for one pod on one node |
| `scores` | how full would a node, or some of its NUMA nodes, be? |
| `amplified_cpu` | does a pod fit the cpu of a node that shows more than it has? |

A zone is a NUMA node, called by its id. Ids have gaps and may be large: sets of zones are tuples of ids, ascending, and
nothing is indexed by an id. Amounts are those of `berth.resources.amounts`.
"""
