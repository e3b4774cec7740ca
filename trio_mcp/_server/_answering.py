"""How a handler serves a request, in either era, and how what it returns is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, final

import trio

from .. import types
from .._channel import holder_of
from .._codec import _json
from .._codec._convert import to_wire
from .._codec._json import is_object
from .._codec._jsonrpc import Encoded
from .._core._lifecycle import Agreement
from .._errors import INTERNAL_ERROR, RemoteProtocolError, RequestError
from .._peer._exchange import Answer, Exchange, Handler
from .._revisions import INPUT_METHODS, SERVER_INFO_KEY, Revision
from ._application import Application, MethodHandler
from ._asking import Abilities, is_answered_wrongly, read_said
from ._context import Context, Surroundings
from ._elicitation import URLElicitationRequired, result_for
from ._input_required import Asking, InputRequired, answer_in_session, input_request
from ._interim import ExtensionResult
from ._listing import Kept
from ._log_handler import enter_request
from ._params import read_params, refuse_many
from ._parking import Parking
from ._requirements import require_for

__all__ = ["Answering"]


@final
class Answering:
    """Serves the requests of one connection with the server's handlers.

    Args:
        application: The server.
        parking: Handlers that wait for their clients between two requests.
        surroundings: Where handlers run.
        holder: In whose name what they keep is lent, where their requests do not say.
    """

    def __init__(
        self, application: Application, parking: Parking, surroundings: Surroundings[Any], holder: str
    ) -> None:
        self._application = application
        self._holder = holder
        self._parking = parking
        self._surroundings = surroundings
        self._run = trio.lowlevel.current_trio_token()
        self._signatures: dict[Revision, dict[str, Any]] = {}

    def by(self, handler: MethodHandler, agreement: Agreement) -> Handler:
        """Return what serves an exchange with a handler."""

        async def serve(exchange: Exchange) -> Answer:
            context = Context(exchange, agreement, self._surroundings)
            enter_request(context, self._run)
            params = exchange.request.params or {}
            is_modern = agreement.revision.is_modern
            try:
                if "inputResponses" in params:
                    refuse_many(params, "inputResponses")
                asking = self._asking(exchange.request.method, params, agreement) if is_modern else None
                if asking is None:
                    result = await handler(params, context)
                else:
                    result = await self._serve_who_may_ask(handler, exchange, agreement, context, asking)
                if isinstance(result, InputRequired):
                    if is_modern:
                        result = self._left_to_client(result, exchange, agreement)
                    else:
                        result = await self._asked_at_once(result, handler, exchange, agreement, context)
            except URLElicitationRequired as error:
                await trio.lowlevel.checkpoint()
                result = result_for(error, _abilities(agreement), context.method)
            except RequestError as error:
                if error.question is None:
                    raise
                # Its code is about the question, and would say something else about this request.
                problem = f"the client refused {error.question}: {error.message}"
                raise RequestError(INTERNAL_ERROR, problem) from error
            except RemoteProtocolError as error:
                if not is_answered_wrongly(error):
                    raise
                raise RequestError(INTERNAL_ERROR, str(error)) from error
            if result.__class__ is dict and not is_modern:
                return cast("dict[str, Any]", result)
            if isinstance(result, ExtensionResult):
                result = self._application.extension_result(result, agreement)
            return self.written(result, agreement.revision)

        return serve

    async def _serve_who_may_ask(
        self,
        handler: MethodHandler,
        exchange: Exchange,
        agreement: Agreement,
        context: Context[Any],
        asking: Asking,
    ) -> object:
        params = exchange.request.params or {}
        return await self._parking.serve(
            exchange,
            agreement,
            context,
            lambda context: handler(params, context),
            read_params(params, types.InputResponseRequestParams).input_responses or {},
            holder=holder_of(exchange.origin, self._holder),
            replay=asking is Asking.REPLAY,
        )

    def _asking(self, method: str, params: Mapping[str, Any], agreement: Agreement) -> Asking | None:
        """Return what becomes of the handler of a request when it asks; `None` if that cannot happen."""
        if method not in INPUT_METHODS:
            return None
        is_again = "requestState" in params or "inputResponses" in params
        if not is_again and not agreement.client_capabilities:
            return None  # a client of which nothing can be asked
        asking = self._application.asking(method, params)
        return asking if is_again or asking is not Asking.NEVER else None

    def _left_to_client(
        self, required: InputRequired, exchange: Exchange, agreement: Agreement
    ) -> types.InputRequiredResult:
        if exchange.request.method not in INPUT_METHODS:
            raise TypeError(f"{exchange.request.method} cannot ask for input")
        for question in required.requests.values():
            require_for(_abilities(agreement), input_request(question).params)
        return self._parking.by_hand(required, exchange)

    async def _asked_at_once(
        self,
        result: object,
        handler: MethodHandler,
        exchange: Exchange,
        agreement: Agreement,
        context: Context[Any],
    ) -> object:
        """What a handler leaves to its client to bring again is asked here and now, in the legacy era."""
        rounds = 0
        while isinstance(result, InputRequired):
            rounds += 1
            limit = self._application.limits.max_input_rounds
            if rounds > limit:
                problem = f"{exchange.request.method} asked for input more than {limit} times (max_input_rounds)"
                raise RequestError(INTERNAL_ERROR, problem)
            context.resume(None, *await answer_in_session(result, exchange, agreement))
            result = await handler(exchange.request.params or {}, context)
        return result  # noqa: ASYNC910 - not public

    def written(self, result: object, revision: Revision) -> Answer:
        """Write a result for the client's revision."""
        if isinstance(result, Kept):
            if result.written is None:
                result.written = Encoded(_json.encode(self.plain(result.result, revision)))
            return result.written
        return result if isinstance(result, Encoded) else self.plain(result, revision)

    def plain(self, result: object, revision: Revision) -> dict[str, Any]:
        """Write a result as plain JSON; a modern one says who has made it."""
        if result.__class__ is dict or isinstance(result, Mapping):
            written = dict(cast("Mapping[str, Any]", result))
        else:
            written = to_wire(result, revision)
        if revision.is_modern:
            written.setdefault("resultType", "complete")
            meta: Any = written.get("_meta")
            if is_object(meta):
                written["_meta"] = {**self._signature(revision), **meta}
            else:
                written["_meta"] = self._signature(revision)
        return written

    def _signature(self, revision: Revision) -> dict[str, Any]:
        """Return what a modern result says of who has made it."""
        signature = self._signatures.get(revision)
        if signature is None:
            signature = {SERVER_INFO_KEY: to_wire(self._application.info, revision)}
            self._signatures[revision] = signature
        return signature


def _abilities(agreement: Agreement) -> Abilities:
    return Abilities(agreement.revision, read_said(agreement.client_capabilities, types.ClientCapabilities))
