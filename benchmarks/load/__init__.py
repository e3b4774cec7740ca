"""What is measured of servers that all have the same tools, by the load generator of `trio_mcp._bench`.

A worker (``python -m benchmarks.load``) is told on standard input what to do, in JSON, a line each.

    worker                  which kinds of measurement there are
    calls, floods, asks, cancels, fanouts, sessions, processes
                            a module each
    growing                 how cost grows with how much there is
"""
