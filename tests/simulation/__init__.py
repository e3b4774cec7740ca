"""Client, server and an adversarial wire in one process, on a mock clock, by programs that a seed makes.

    make simulate SEEDS=10000        plays fresh programs on all cores; its exit status says whether a promise was broken
    make simulate SEED=4711          plays one again, makes it as short as it can, and draws what went over its wire

A *program* (`program.py`) is data: what the tasks of clients do and when they give up, what the server's handlers do
meanwhile, what befalls the wire (`wires.py`), who leaves when and how. It is *played* (`play.py`, `serving.py`,
`calling.py`), in an order of tasks that the seed decides. All that happens goes into one *log* of plain JSON: every
frame or piece of HTTP as it is on the wire, and what callers and handlers note themselves. The *checker*
(`checker.py`, and `reading.py`, which reads the wire) judges that log by `docs/cancellation.md`, and shares no code with
the package, nor with what plays. `shrink.py` makes a program short, `diagram.py` draws its wire, `batch.py` plays many.
"""
