"""What containers of this node are to have of what their pods were given, from annotations and the node's facts.

| module | question |
| --- | --- |
| `seen` | which pods and containers does the runtime tell of? |
| `facts` | what is known of the node beside them? |
| `cpus` | which CPUs and which quota does a container have? |
| `beginning` | which OOM score does a container begin with, and in which part of the caches? |
| `devices` | which devices, variables and mounts does a container have? |
| `creation` | what is a container created with? |
| `lacking` | what does a container lack that began without the plugin? |
| `board` | which pods and containers are there, and whose limits are to be changed? |
| `findings` | what is wrong, and with whom? |
| `groups` | which control group does a pod have? |
"""
