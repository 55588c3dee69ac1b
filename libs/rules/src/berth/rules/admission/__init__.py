"""What happens when an object is written: mutation and validation, as functions of the request and of what is known.

`review` is the one way in. A door (the path of a webhook) has its rules, in `registry`; each rule is a file with one
idea and works on a `Case`. No rule raises for what a user wrote: it refuses by name, warns, or notes a problem.
"""
