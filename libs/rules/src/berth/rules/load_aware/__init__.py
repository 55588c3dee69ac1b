"""What nodes really use, and what that means for a pod that waits (Koordinator's LoadAwareScheduling).

| module | question |
| --- | --- |
| `pods` | what is a pod of STATE to these rules? |
| `estimate` | what will a pod use that nobody has measured yet, and for how long does that count? |
| `metric` | which window of a report counts, and is the report too old? |
| `agent_report`, `node_metric` | what does a node report: by Berth's own agent, and by another one? |
| `reports` | which of the two counts? |
| `existing` | what do the pods of a node use, measured and estimated together? |
| `thresholds`, `filter` | is the node too busy for the pod? |
| `score` | how much of the node would be left? |
| `capacity` | of what are these the percentages? |

What a profile says about it is in `berth.rules.scheduler_config.load_aware`. Amounts are thousandths of a core and
bytes, as in `berth.resources.amounts`; times are seconds of one clock, which the caller chooses: reports and
assignments are compared with each other, and a report's age with `now_s`.
"""
