"""Random programs over `trio_mcp`, and a checker that shares nothing with it.

Written from the documentation alone: `docs/`, public docstrings, the specification. Nothing here imports more than
`trio_mcp`'s public names, and nobody who changes this may look for an answer in the package: if the documentation does
not say what is right, the documentation is wrong.

A *program* (`plan.py`) is data made from a seed: clients of several revisions, what their tasks call and when they
give up, what the server's handlers do meanwhile, who looks away from the wire and when, who leaves and how. It is
*played* (`play.py`) over memory on a mock clock, over stdio with a real process behind a relay (`relay.py`), or over
HTTP on loopback behind a proxy (`proxy.py`). All that happens goes into one chronological *record* (`record.py`), and
the *checker* (`checker.py`) judges the record: each of its rules is a sentence of `docs/cancellation.md`.

    python -m tests.programs --seeds 0-1999 --transport memory

prints one line for each seed that fails, then the smallest program that fails in the same way, and what was recorded
around the violation. ``--without leak,thread`` leaves out what programs can do by that name. `test_checker.py` shows
of each rule that it can fail.
"""
