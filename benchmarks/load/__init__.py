"""The neutral load generator: raw protocol, no library of anybody, one process, no event loop but `select`.

A worker (``python -m benchmarks.load``) is told on standard input what to do, in JSON, a line each.

    worker                  reads what to do, and has it done
    template, dialect       requests as bytes in which only the id changes; what they look like in each era
    link                    what carries them: lines, http_link over http_connection
    server_process, opening a server's process; coming to an agreement with it
    calls, floods, asks, cancels, fanouts, sessions, processes
                            what is measured, a module each
    fixed_server            the other way round: a server that is never the slower one, to measure clients
"""
