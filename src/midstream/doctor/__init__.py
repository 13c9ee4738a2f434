"""What is broken in a history, who would refuse it, and a healed copy."""
