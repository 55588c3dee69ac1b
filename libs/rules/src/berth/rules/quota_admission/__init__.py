"""What admission asks of ElasticQuotas and of the pods that name them: defaults, checks, bookings.

Each check gives its refusals in the documented order; a webhook answers with the first, a report shows all of them.
Nothing here keeps a tree of its own: the quotas that are known come in as `KnownQuotas`, and no check changes them.
"""
