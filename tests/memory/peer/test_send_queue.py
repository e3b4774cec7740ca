"""What lies ready to be written: in order, open to second thoughts, and none of it dearer because there is more."""

from __future__ import annotations

import weakref

import attrs
from hypothesis import given
from hypothesis import strategies as st
from inside_peer import QueuedMessage, SendQueue
from shared.peer_send_queue import answered, exchanges, open_queue, said


def contents(queue: SendQueue) -> list[bytes]:
    return [entry.message.data for entry in queue.first()]


def test_what_is_given_up_goes_and_the_rest_stays_in_order() -> None:
    """Promise 4: nothing more is sent for what was given up, and nobody else's messages change places."""
    queue = open_queue()
    one, other = exchanges(2)
    for number in range(0, 6, 2):
        queue.put(said(one, number))
        queue.put(said(other, number + 1))
    queue.withdraw_all_of(one)
    assert contents(queue) == [b"1", b"3", b"5"]
    queue.put(said(one, 6))
    queue.put(answered(other, 7))
    queue.withdraw_all_of(one)
    assert contents(queue) == [b"1", b"3", b"5", b"7"]
    assert queue.withdraw_answer(other.request.id)
    assert contents(queue) == []
    assert queue.size == 0


@attrs.define
class _Model:
    """The same, by searching."""

    lying: list[tuple[int, QueuedMessage]] = attrs.Factory(list[tuple[int, QueuedMessage]])

    def withdraw_all_of(self, owner: int) -> None:
        self.lying = [(of, entry) for of, entry in self.lying if of != owner]

    def withdraw_answer(self, owner: int) -> bool:
        has_answer = any(of == owner and entry.message.answers for of, entry in self.lying)
        if has_answer:
            self.withdraw_all_of(owner)
        return has_answer


steps = st.lists(
    st.tuples(
        st.sampled_from(["say", "say", "answer", "withdraw all", "withdraw answer", "withdraw", "write"]),
        st.integers(0, 3),
    ),
    max_size=40,
)


@given(steps)
def test_it_does_what_a_search_would_do(steps: list[tuple[str, int]]) -> None:
    """Whatever is said, answered, taken back and written, and in whatever order."""
    queue, model, several = open_queue(), _Model(), exchanges(4)
    gone: list[QueuedMessage] = []
    is_answered = [False] * 4
    for number, (step, owner) in enumerate(steps):
        match step:
            case "say" | "answer":
                if step == "answer" and is_answered[owner]:
                    continue
                make = said if step == "say" else answered
                is_answered[owner] |= step == "answer"
                entry = make(several[owner], number)
                queue.put(entry)
                model.lying.append((owner, entry))
            case "withdraw all":
                queue.withdraw_all_of(several[owner])
                model.withdraw_all_of(owner)
            case "withdraw answer":
                assert queue.withdraw_answer(owner) is model.withdraw_answer(owner)
            case "withdraw" if model.lying:
                _, entry = model.lying.pop(owner % len(model.lying))
                queue.withdraw(entry)
                gone.append(entry)
            case "write":
                written = [entry for _, entry in model.lying[:owner]]
                queue.remove_first(len(written), has_rest=False)
                del model.lying[: len(written)]
                gone += written
            case _:
                pass
        for entry in gone:
            queue.withdraw(entry)  # what is not here any more cannot be taken back
        assert queue.first() == [entry for _, entry in model.lying]
        assert queue.size == sum(len(entry.message.data) for _, entry in model.lying)


async def test_a_queue_that_was_closed_keeps_nothing_of_what_was_taken() -> None:
    """Nobody confirms the last write: over HTTP a request was kept by its own stream until the collector came."""
    queue = open_queue()
    (one,) = exchanges(1)
    queue.put(answered(one, 1))
    (entry,) = await queue.take()
    taken = weakref.ref(entry)
    del entry
    queue.close()
    assert taken() is None
