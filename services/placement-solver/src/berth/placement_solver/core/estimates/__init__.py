"""When will who waits start? From lifetimes seen, the queue and quotas, and judged by what came of such words before.

`lifetimes` is how long pods stay, `ground` what there is now as numbers, `playing` plays it through many times,
`bands` makes two times of that, and corrects them by how often the last ones were right.
"""
