"""CPUs of a node: where they are, who has them to himself, and which of them a pod or a container gets.

| module | question |
| --- | --- |
| `cpuset` | which CPUs does a text such as `0-3,8` name? |
| `layout` | which core, socket and NUMA node does each CPU of a node belong to? |
| `available`, `take` | which CPUs may be given out, and which of them does a pod get? |
| `qos` | which QoS class and priority class does a pod have? |
| `bind_policy` | does a pod get CPUs of its own, by which policy, and does the node's own policy allow that? |
| `resource_status` | which CPUs and NUMA nodes was a bound pod given? |
| `reserved`, `node_reservation`, `zone_reservation`, `system_qos` | what is held back, and by whom? |
| `kubelet` | what does kubelet's CPU manager hold, and which NUMA policy does it follow? |
| `shared_pools` | which CPUs are left for pods without CPUs of their own? |
| `container_cpuset` | which CPUs does a container run on? |

CPUs are sets of ids. A zone is a NUMA node, called by its id: ids have gaps, cores differ in their number of threads,
and nothing here counts on either. What was written by others and cannot be read is a `Problem` that names the field.
"""
