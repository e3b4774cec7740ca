"""What users of servers touch."""
