"""What comes out of an edge that owns a hidden nursery."""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import cast

import pytest
import trio
from inside_base import open_hidden_nursery, sole_error


async def cancelled() -> trio.Cancelled:
    """Return a cancellation of Trio's; nobody else can make one."""
    caught: list[trio.Cancelled] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:
            caught.append(error)
            raise
    return caught[0]


def test_one_error_comes_out_as_itself() -> None:
    """Promise 8: an exception raised in the body is not wrapped."""
    error = ValueError("body")
    assert sole_error(ExceptionGroup("", [error])) is error
    assert error.__cause__ is None


def test_several_errors_stay_together() -> None:
    """Dropping one would be a lie."""
    assert sole_error(ExceptionGroup("", [ValueError(), KeyError()])) is None
    assert sole_error(BaseExceptionGroup("", [ValueError(), GeneratorExit()])) is None


def test_a_group_of_the_caller_is_the_caller_s() -> None:
    """Only our own nursery is taken off, one level."""
    inner = ExceptionGroup("the caller's", [ValueError("inner")])
    assert sole_error(ExceptionGroup("", [inner])) is inner
    assert sole_error(BaseExceptionGroup("", [inner, KeyError()])) is None


async def test_cancellations_count_only_if_there_is_nothing_else() -> None:
    """What was cancelled because something failed is not a second failure."""
    first, second = await cancelled(), await cancelled()
    error = ValueError()
    assert sole_error(BaseExceptionGroup("", [first, error, second])) is error
    assert sole_error(BaseExceptionGroup("", [first, second])) is first
    assert sole_error(BaseExceptionGroup("", [first, error, KeyError()])) is None
    theirs = BaseExceptionGroup("a nursery of a task", [BaseExceptionGroup("", [first]), second])
    assert sole_error(BaseExceptionGroup("", [theirs, error])) is error
    mixed = BaseExceptionGroup("a nursery of a task", [first, KeyError()])
    assert sole_error(BaseExceptionGroup("", [mixed, error])) is None
    await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_an_exit_that_was_asked_for_wins(error: BaseException) -> None:
    """A program that is to end must end, and the rest is told as the reason."""
    assert sole_error(BaseExceptionGroup("", [error])) is error
    group = BaseExceptionGroup("", [ValueError(), error, KeyError()])
    leaving = sole_error(group)
    assert leaving is not None
    assert type(leaving) is type(error)
    assert leaving.args == error.args
    assert leaving.__cause__ is group


async def test_the_error_of_a_body_goes_on_untouched() -> None:
    """It is the very object, and nothing is said to have come before it."""
    error = ValueError("body")
    with pytest.raises(ValueError, match="body") as caught:
        async with open_hidden_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise error
    assert caught.value is error
    assert (error.__context__, error.__cause__) == (None, None)


class Problems(ExceptionGroup[Exception]):  # noqa: ASYNC126 - that is the point
    """A group of the caller's, which has no `derive` of its own."""


@pytest.mark.parametrize(
    "group",
    [Problems("", [ValueError(), KeyError()]), BaseExceptionGroup("", [KeyboardInterrupt()])],
    ids=["own", "exit"],
)
async def test_the_group_of_a_body_goes_on_untouched(group: BaseExceptionGroup[BaseException]) -> None:
    """Trio's `split` made another one of it, a plain `ExceptionGroup` without its attributes."""
    group.add_note("a note")
    caught: BaseException | None = None
    try:
        async with open_hidden_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            async with open_hidden_nursery():
                raise group
    except BaseException as error:  # noqa: ASYNC103 - it is looked at
        caught = error
    assert caught is group
    assert (group.__context__, group.__cause__, group.__notes__) == (None, None, ["a note"])


async def test_the_group_of_a_body_is_itself_among_others() -> None:
    """Where a task fails as well, and where the program is to end."""
    for failure in (OSError(), SystemExit(3)):
        body = Problems("", [ValueError()])

        async def fail(failure: BaseException = failure) -> None:
            raise failure

        caught: BaseException | None = None
        try:
            async with open_hidden_nursery() as nursery:
                nursery.start_soon(fail)
                try:
                    await trio.sleep_forever()
                finally:
                    raise body  # noqa: ASYNC104
        except BaseException as error:  # noqa: ASYNC103 - it is looked at
            caught = error
        found = caught.__cause__ if isinstance(caught, SystemExit) else caught
        assert isinstance(found, BaseExceptionGroup)
        group = cast("BaseExceptionGroup[BaseException]", found)
        assert set(group.exceptions) == {failure, body}


async def test_a_group_with_cancellations_loses_those_of_the_nursery() -> None:
    """They must not leave the scope that they belong to, so this is another group."""
    with pytest.RaisesGroup(ValueError) as caught:
        async with open_hidden_nursery() as nursery:
            nursery.cancel_scope.cancel()
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled as error:
                raise BaseExceptionGroup("of the body", [error, ValueError()]) from None  # noqa: ASYNC104 - in it
    assert caught.value.message == "of the body"


async def test_the_error_of_a_task_keeps_its_own_context() -> None:
    """Not the group, and not the cancellation that it has brought over the body."""

    async def fail() -> None:
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second")  # noqa: B904 - its context is what is looked at

    with pytest.raises(ValueError, match="second") as caught:
        async with open_hidden_nursery() as nursery:
            nursery.start_soon(fail)
            await trio.sleep_forever()
    assert isinstance(caught.value.__context__, KeyError)


async def test_several_errors_come_out_as_their_group() -> None:
    """None of them is dropped, and nothing is taken off."""

    async def fail() -> None:
        raise KeyError

    with pytest.RaisesGroup(KeyError, ValueError):
        async with open_hidden_nursery() as nursery:
            nursery.start_soon(fail)
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError


async def test_a_hidden_nursery_leaves_no_cycle() -> None:
    """What a failed call has held is let go at once, not when the collector comes by."""

    class Held:
        pass

    held = Held()
    gone = weakref.ref(held)

    async def fail(held: object) -> None:
        raise ValueError

    gc.disable()
    try:
        with contextlib.suppress(ValueError):
            async with open_hidden_nursery() as nursery:
                nursery.start_soon(fail, held)
                await trio.sleep_forever()
        del held
        assert gone() is None
    finally:
        gc.enable()
