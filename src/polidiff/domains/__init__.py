"""Worlds to try things on, each with policies: the paper's two tasks, operations, intensive care."""
