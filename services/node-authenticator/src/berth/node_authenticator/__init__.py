"""Which node does this agent speak for?"""
