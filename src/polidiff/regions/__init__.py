"""Regions: diverging states told as a few rules, and decision processes over such regions."""

from polidiff.regions.describe import Described, describe

__all__ = ["Described", "describe"]
