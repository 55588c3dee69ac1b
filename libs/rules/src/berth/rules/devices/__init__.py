"""Which devices of one node a pod gets, and what a pod and a node say about it.

Pure: amounts are integer vectors over the columns of a device family (:mod:`.columns`), a node's devices of a family
are a sequence of :class:`~.slots.Slot`. Who holds what is counted elsewhere and comes in as used amounts.

| module | question |
| --- | --- |
| `columns`, `slots`, `memory`, `scoring` | what does a device have, who takes how much of it, how full is it? |
| `hints`, `joint_request`, `partition_spec`, `want`, `vendor_limits`, `request` | what does the pod ask for? |
| `partitions`, `templates`, `topology`, `node` | what does the node say? |
| `ordering`, `allocate`, `gpus`, `accelerators` | the greedy choice of one family |
| `split` | a share of several cards, divided unevenly |
| `candidates` | which devices of a family may be taken at all, and which virtual function of each? |
| `joint`, `search` | several families close together: greedy, and exact where greedy fails |
| `choose`, `reserved` | the whole choice on a node, and what a Reservation makes of it for a pod that draws on it |
| `numa_hints` | which NUMA nodes can hold the devices? |

The order is that of Koordinator: where the greedy choice succeeds it is taken, so that both give the same devices.
"""
