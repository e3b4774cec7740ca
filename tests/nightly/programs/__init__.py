"""Random programs over what the simulator cannot have in one process: real processes, sockets and clocks.

The programs, what plays them and what judges them are those of `tests/simulation`; here is what is between the two ends.
A server is a process behind a relay that writes down every byte (`relay.py`, `scripted.py`), or listens on loopback, on
either host, behind a proxy that writes down what the bytes mean (`proxy.py`). Both can look away for a while. Durations
are shorter than on a mock clock, and what is judged by the clock is judged with patience: what a busy machine takes is
measured meanwhile.

    python -m tests.nightly.programs --seeds 0-199 --wire stdio
"""
