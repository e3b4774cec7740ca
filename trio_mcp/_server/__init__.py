"""What authors of servers touch."""
