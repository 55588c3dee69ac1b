"""What would happen: the rounds of the solver on a view of their own, in which pods have come and nodes are gone.

`checking` says what is wrong with a question, `changing` makes the view what is supposed, `running` makes rounds until
nothing moves any more, `telling` says what became of whom, `asking` does all of it in a copy of the process. The view
that is changed is never the one that is planned on.
"""
