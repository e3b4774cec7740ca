"""One request of ours, asked as often as its server wants to know more before it can answer.

A modern server cannot ask the client anything by itself. It answers with what it wants to know; the client finds
that out and asks again, under a new id, until there is a result. In the legacy era nothing of this happens.

Spec: 2026-07-28, basic/patterns/mrtr; basic, "ResultType".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final

import attrs
import trio

from .._codec._json import is_object
from .._core._reconnect import Backoff, RestartPolicy
from .._errors import URL_ELICITATION_REQUIRED, ConnectionLost, RemoteProtocolError, RequestError
from .._peer._call import clock_stopped, current_clock
from .._peer._exchange import OnProgress
from .._revisions import INPUT_METHODS, Revision
from .._trio import open_hidden_nursery
from ..types import RequestParams
from ._connection import Connection
from ._dispatch import ResultHandler
from ._questions import Question, Questions
from ._reconnecting import ConnectionKeeper

BROUGHT: Final = ("inputResponses", "requestState")
"""What a request that is asked again brings along."""

IDLE_ROUNDS: Final = RestartPolicy(max_restarts=1_000, first_delay=0.02, max_delay=10.0)
"""How long a server that asks back without a question, because it is not done yet, is left alone."""


@final
@attrs.frozen
class Answered:
    """What came of a request.

    Attributes:
        result: The result as plain JSON, the type as it is on the wire.
        params: The parameters that were sent at last.
        revision: The revision that was spoken.
        result_type: ``"complete"``, ``"input_required"``, or what an extension calls it.
        rounds: How often the server has asked back before.
    """

    result: dict[str, Any]
    params: Mapping[str, Any]
    revision: Revision
    result_type: str
    rounds: int

    @property
    def may_be_kept(self) -> bool:
        """Whether the result depends on nothing but the request, so that a cache may look at it at all."""
        return self.rounds == 0 and self.result_type == "complete"


@final
class Rounds:
    """Asks a server, and answers what it asks back.

    Args:
        keeper: Has the connection.
        questions: Has the user's handlers.
        result_types: The types that extensions take.
        max_rounds: How often a server may ask back.
        max_questions: How many questions it may ask at once.
    """

    def __init__(
        self,
        keeper: ConnectionKeeper,
        questions: Questions,
        result_types: Mapping[str, ResultHandler],
        *,
        max_rounds: int,
        max_questions: int,
    ) -> None:
        self._keeper = keeper
        self._questions = questions
        self._result_types = result_types
        self._max_rounds = max_rounds
        self._max_questions = max_questions

    async def ask(
        self,
        method: str,
        params: RequestParams,
        *,
        on_progress: OnProgress | None = None,
        hand_back: bool = False,
    ) -> Answered:
        """Ask until there is a result.

        Cancelled while the server works, the request of that round is given up on the wire; cancelled while the
        user's handlers work, they are cancelled and the wire hears nothing, for nothing is in flight. They are
        cancelled as well when the client is left, or the connection lost and not restored. While it is being
        restored they go on, and what they answer is brought to the next server.

        Args:
            method: The method.
            params: Its parameters, the same in each round.
            on_progress: Called with the progress of every round.
            hand_back: Whether to return what the server asks instead of answering it.

        Raises:
            RemoteProtocolError: The server asks what it may not, asks too much or too often, or answers with a
                type of result that nobody knows.
            Others: Whatever a handler raises, and as `Client.request`.
        """
        brought: dict[str, Any] | None = None

        async def make(connection: Connection) -> tuple[dict[str, Any], dict[str, Any], Revision]:
            if brought is not None and not connection.revision.is_modern:
                raise ConnectionLost(f"{method}: the server came back with {connection.revision}")
            connection.check(method)
            wire = connection.write(params)
            if brought is not None:
                wire = {name: wire[name] for name in wire if name not in BROUGHT} | brought
            return await self._request(connection, method, wire, on_progress), wire, connection.revision

        idle: Backoff | None = None
        for rounds in range(self._max_rounds + 1):
            result, wire, revision = await self._keeper.ask(make)
            kind = self._result_type(method, result, revision)
            if kind != "input_required" or hand_back:
                return Answered(result, wire, revision, kind, rounds)
            clock = current_clock()
            if clock is not None:
                clock.push()  # it has been heard of
            if rounds < self._max_rounds:
                brought = await self._bring(method, result, revision)
                if not brought.get("inputResponses"):
                    idle = idle or Backoff(IDLE_ROUNDS)
                    await trio.sleep(idle.next_delay(0) or IDLE_ROUNDS.max_delay)
        raise RemoteProtocolError(
            f"{method}: the server still asks back after {self._max_rounds} rounds (max_input_rounds)"
        )

    async def _request(
        self, connection: Connection, method: str, params: Mapping[str, Any], on_progress: OnProgress | None
    ) -> dict[str, Any]:
        try:
            return await connection.peer.request(method, params, on_progress=on_progress)
        except RequestError as error:
            if error.code == URL_ELICITATION_REQUIRED:
                self._questions.elicitations.add_required(error.data)
            raise

    def _result_type(self, method: str, result: Mapping[str, Any], revision: Revision) -> str:
        if not revision.is_modern:
            # Results have no type there, but for those of extensions that both sides have declared.
            said = result.get("resultType")
            return said if isinstance(said, str) and said in self._result_types else "complete"
        # Where it is missing the server's revision is older, whatever it says (2026-07-28, basic, "ResultType").
        kind = result.get("resultType", "complete")
        if kind == "complete" or (kind == "input_required" and method in INPUT_METHODS):
            return str(kind)
        if kind == "input_required":
            raise RemoteProtocolError(f"{method}: the server asks back, which it must not here")
        if isinstance(kind, str) and kind in self._result_types:
            return kind
        raise RemoteProtocolError(f"{method}: the result is of a type that nobody knows: {kind!r:.60}")

    async def _bring(self, method: str, result: Mapping[str, Any], revision: Revision) -> dict[str, Any]:
        """Return what the request brings along when it is asked again."""
        asked, state = result.get("inputRequests"), result.get("requestState")
        if asked is None and state is None:
            raise RemoteProtocolError(
                f"{method}: the server asks back with neither inputRequests nor requestState"
            )
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
        """Let the user's handlers answer what the server asks, all of it at once.

        Nobody is asked anything unless everything may be asked. When one handler fails, the others are cancelled;
        and all of them when there will be no connection any more.

        Raises:
            RemoteProtocolError: The server asks what it may not.
            ConnectionLost: The connection is gone and will not be restored.
            trio.ClosedResourceError: The client was closed.
            Others: Whatever a handler raises, as itself if it is the only one.
        """
        questions = self._prepare(method, asked, revision)
        answers: dict[str, Any] = dict.fromkeys(questions)  # in the order of the questions

        async def answer_one(key: str, question: Question) -> None:
            answers[key] = await question()

        with self._keeper.while_kept(), clock_stopped():
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
