"""Is this node keeping to its strategy?"""
