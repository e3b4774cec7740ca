"""Authorization where it asks others: what vouches for tokens, and how a server is protected by it."""
