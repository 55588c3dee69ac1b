"""From an object of the API server to what STATE says of it: pods, their templates, PodGroups.

cluster-watcher reads every pod like this, and whoever asks what would become of a manifest reads it in the same way.
"""
