"""A log as a table: a half that chooses plans, and a half that judges them."""
