"""A simulator as a table: cells that were played."""
