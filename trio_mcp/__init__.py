"""The Model Context Protocol for Trio."""
