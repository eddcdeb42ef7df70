"""Paths, start groups, verdicts and sentences: everything that turns a difference into words."""
