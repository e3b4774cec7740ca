"""Input rounds: what a modern server asks before it can answer a request, and what the request then brings along.

Such a server cannot send requests. It answers with an `InputRequiredResult`; the client's handlers answer the
questions in it, and the request is sent again, under a new id, until there is a result. The loop is
`LowLevelClient._ask_in_rounds`. Nothing of this happens in the legacy era.

Spec: 2026-07-28, basic/patterns/mrtr; basic, "ResultType".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final

import attrs
import trio

from .._codec._json import is_object
from .._core._reconnect import RestartPolicy
from .._errors import RemoteProtocolError, RequestError
from .._peer._call import clock_stopped
from .._revisions import INPUT_METHODS, Revision
from .._trio import open_hidden_nursery
from ._dispatch import ResultHandler
from ._questions import Question, Questions
from ._reconnecting import ReconnectingConnection

BROUGHT: Final = ("inputResponses", "requestState")
"""The parameters of a request that belong to one round."""

IDLE_ROUNDS: Final = RestartPolicy(max_restarts=1_000, first_delay=0.02, max_delay=10.0)
"""The pauses before a request is sent again to a server that is not done and asks back without a question."""


@final
@attrs.define(eq=False)
class Answered:
    """The outcome of a request.

    Attributes:
        result: The result as plain JSON.
        params: The parameters that were sent in the last round.
        result_type: ``"complete"``, ``"input_required"``, or the type of an extension.
        rounds: How often the server has asked back before.
    """

    result: dict[str, Any]
    params: Mapping[str, Any]
    result_type: str
    rounds: int

    @property
    def may_be_kept(self) -> bool:
        """Whether the result depends on nothing but the request, so that a cache may consider it."""
        return self.rounds == 0 and self.result_type == "complete"


@final
@attrs.define(eq=False)
class InputRounds:
    """Reads what a server asks back, and lets the user's handlers answer it.

    Args:
        reconnecting: Cancels handlers once no connection can follow.
        questions: Has the user's handlers.
        result_types: The types of results that extensions handle.
        max_questions: How many questions a server may ask at once.
    """

    _reconnecting: ReconnectingConnection
    _questions: Questions
    _result_types: Mapping[str, ResultHandler]
    _max_questions: int

    def result_type(self, method: str, result: Mapping[str, Any], revision: Revision) -> str:
        """Return the type of a result.

        Raises:
            RemoteProtocolError: The server asks back where it must not, or the type is unknown.
        """
        if not revision.is_modern:
            # Results have no type there, but for those of extensions that both sides have declared.
            declared = result.get("resultType")
            return declared if isinstance(declared, str) and declared in self._result_types else "complete"
        # Where it is missing the server's revision is older, whatever was agreed (2026-07-28, basic,
        # "ResultType").
        kind = result.get("resultType", "complete")
        if kind == "complete" or (kind == "input_required" and method in INPUT_METHODS):
            return str(kind)
        if kind == "input_required":
            raise RemoteProtocolError(f"{method}: the server must not answer this method with input_required")
        if isinstance(kind, str) and kind in self._result_types:
            return kind
        raise RemoteProtocolError(f"{method}: the result is of an unknown type: {kind!r:.60}")

    async def bring(self, method: str, result: Mapping[str, Any], revision: Revision) -> dict[str, Any]:
        """Return what the request brings along when it is sent again.

        Raises:
            RemoteProtocolError: The server asks what it may not, too much, or nothing.
            Others: As `answer`.
        """
        asked, state = result.get("inputRequests"), result.get("requestState")
        if asked is None and state is None:
            raise RemoteProtocolError(f"{method}: input_required with neither inputRequests nor requestState")
        brought: dict[str, Any] = {}
        if asked is not None:
            brought["inputResponses"] = await self.answer(method, asked, revision)
        if state is not None:
            if not isinstance(state, str):
                raise RemoteProtocolError(f"{method}: requestState: expected a string")
            brought["requestState"] = state
        await trio.lowlevel.checkpoint()
        return brought

    async def answer(self, method: str, asked: object, revision: Revision) -> dict[str, Any]:
        """Let the user's handlers answer the server's questions, all of them at once.

        No handler is called unless every question is allowed. When one handler fails, the others are cancelled;
        and all of them when there will be no connection any more. While the connection is being restored they
        go on, and their answers are sent to the next one.

        Raises:
            RemoteProtocolError: The server asks what it may not.
            ConnectionLost: The connection is lost and will not be restored.
            trio.ClosedResourceError: The client was closed.
            Others: Whatever a handler raises, as itself if it is the only one.
        """
        questions = self._prepare(method, asked, revision)
        answers: dict[str, Any] = dict.fromkeys(questions)  # in the order of the questions

        async def answer_one(key: str, question: Question) -> None:
            answers[key] = await question()

        with self._reconnecting.cancelled_when_over(), clock_stopped():
            async with open_hidden_nursery() as nursery:
                for key, question in questions.items():
                    nursery.start_soon(answer_one, key, question, name=f"answering {key!r} for {method}")
        await trio.lowlevel.checkpoint()  # there may have been nothing to answer
        return answers

    def _prepare(self, method: str, asked: object, revision: Revision) -> dict[str, Question]:
        if not is_object(asked):
            raise RemoteProtocolError(f"{method}: inputRequests: expected an object")
        if len(asked) > self._max_questions:
            raise RemoteProtocolError(
                f"{method}: the server asks {len(asked)} questions at once; "
                f"max_inbound_requests is {self._max_questions}"
            )
        questions: dict[str, Question] = {}
        for key, request in asked.items():
            try:
                questions[key] = self._prepare_one(request, revision)
            except (RequestError, ValueError) as error:
                why = error.message if isinstance(error, RequestError) else str(error)
                raise RemoteProtocolError(f"{method}: inputRequests.{key:.60}: {why}") from error
        return questions

    def _prepare_one(self, request: object, revision: Revision) -> Question:
        if not is_object(request) or not isinstance(request.get("method"), str):
            raise ValueError("expected an object with a method")
        params = request.get("params")
        if params is not None and not is_object(params):
            raise ValueError("params: expected an object")
        return self._questions.prepare(request["method"], params, revision)
