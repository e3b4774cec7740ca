"""The command line: ``trio-mcp`` and ``python -m trio_mcp``."""
