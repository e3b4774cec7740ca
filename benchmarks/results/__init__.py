"""What became of measuring this library: targets, pictures, the page of results."""
