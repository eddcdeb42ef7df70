"""What must be true of a log for its verdicts to be: tested where a test exists, bounded where none does."""
