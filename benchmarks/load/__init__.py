"""The neutral load generator: raw protocol, no library of anybody, one process, no event loop but `select`.

A worker (``python -m benchmarks.load``) is told on standard input what to do, a JSON object a line, and answers each.

    _template   requests as bytes in which only the id changes
    _dialect    what requests look like in each era
    _link       what carries them; _lines and _http are the two kinds
    calls …     one module for each kind of measurement
"""
