"""The plugin of the container runtime: containers begin with what their pods were given.

`handler` answers the runtime from memory; `plugin` keeps running containers right and says how it stands; `known` is
what both share. What is decided is in `core.inside`.
"""
