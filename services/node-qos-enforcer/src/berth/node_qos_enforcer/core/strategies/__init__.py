"""What holds pods of this node to their classes: a law in each module, all behind one seam.

A law is a pure function of a snapshot of the node, of what the node's NodeSLO says, and of what it remembered. It says
which values files of the kernel are to have; who writes them is `berth.node_qos_enforcer.executor`. `registry` lists
the laws, `knobs` what they may set.
"""
