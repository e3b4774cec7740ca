"""What `trio-mcp bench` measures any server and any client with; ``benchmarks/`` measures this library with it.

Nothing here is imported before it is used. What shows figures needs the extra ``bench``; what makes load does
not. It needs POSIX.
"""
