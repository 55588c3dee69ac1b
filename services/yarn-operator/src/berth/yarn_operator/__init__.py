"""How much of what a node lends is YARN to have?"""
