"""The rules of placement once more, one a file: each starts from the objects and shares nothing with its constraint."""
