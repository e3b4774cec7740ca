"""What a message has taken is given back in the event loop, also if the last reference to it was a thread's."""

from __future__ import annotations

import threading

import trio
from inside_base import call_in_run
from line_sockets import ENOUGH


async def test_a_thread_has_it_called_in_the_loop() -> None:
    """In the loop's own thread it is called at once."""
    token, here = trio.lowlevel.current_trio_token(), threading.get_ident()
    called: list[tuple[int, str]] = []

    def note(text: str) -> None:
        called.append((threading.get_ident(), text))

    call_in_run(token, note, "here")
    assert called == [(here, "here")]
    with trio.fail_after(ENOUGH):
        await trio.to_thread.run_sync(call_in_run, token, note, "there")
        while len(called) < 2:
            await trio.sleep(0.01)
    assert called[1] == (here, "there")


def test_after_the_loop_has_ended_nothing_is_called() -> None:
    async def main() -> trio.lowlevel.TrioToken:
        await trio.lowlevel.checkpoint()
        return trio.lowlevel.current_trio_token()

    def never() -> None:
        raise AssertionError

    call_in_run(trio.run(main), never)
