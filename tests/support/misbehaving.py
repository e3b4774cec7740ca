"""An authorization server that does wrong on demand, in its documents, redirects and tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

import attrs
import trio
from inside_protection import Answer, json_answer, page_of

from trio_mcp.testing import AuthorizationServer, ReceivedRequest

Misbehaviour: TypeAlias = Literal[
    "another-issuer-in-metadata",
    "another-issuer-in-answer",
    "no-issuer-in-answer",
    "another-state-in-answer",
    "no-state-in-answer",
    "no-pkce-in-metadata",
    "plain-pkce-in-metadata",
    "plain-http-endpoints",
    "private-endpoints",
    "redirecting-metadata",
    "redirecting-token-endpoint",
    "failing-metadata",
    "hanging-metadata",
    "huge-metadata",
    "metadata-that-is-no-json",
    "failing-token-endpoint",
    "hanging-token-endpoint",
    "odd-token-type",
    "no-access-token",
    "tokens-for-another-resource",
    "expired-tokens",
    "refused-refreshes",
    "same-refresh-token",
    "no-refresh-token",
    "refused-registrations",
]

OTHER: Final = "https://other.example"

ENDPOINTS: Final = ("authorization", "token", "registration", "device_authorization")


@attrs.define(eq=False, kw_only=True, repr=False)
class Misbehaving(AuthorizationServer):
    """An `AuthorizationServer` with a set of what it does wrong, which may be changed at any time."""

    misbehaviours: set[Misbehaviour] = attrs.field(factory=set[Misbehaviour], converter=set)

    async def _answer(self, request: ReceivedRequest, body: bytes) -> Answer:
        wrong = self.misbehaviours
        if "/.well-known/" in request.path:
            return await self._instead("metadata") or self._of_metadata(await super()._answer(request, body))
        if request.path.endswith("/token"):
            form = request.parameters
            if "refused-refreshes" in wrong and form.get("grant_type") == "refresh_token":
                return json_answer({"error": "invalid_grant"}, 400)
            return await self._instead("token-endpoint") or self._of_tokens(
                await super()._answer(request, body), form
            )
        if request.path.endswith("/register") and "refused-registrations" in wrong:
            return json_answer({"error": "invalid_client_metadata"}, 403)
        return self._of_redirects(await super()._answer(request, body))

    async def _instead(self, what: Literal["metadata", "token-endpoint"]) -> Answer | None:
        wrong: set[str] = {*self.misbehaviours}
        if f"hanging-{what}" in wrong:
            await trio.sleep_forever()
        if f"failing-{what}" in wrong:
            return json_answer({"error": "server_error"}, 500)
        if f"redirecting-{what}" in wrong:
            return Answer(307, headers={"location": f"http://other.example/{what}"})
        if f"{what}-that-is-no-json" in wrong:
            return page_of("Welcome", "")
        return None

    def _of_metadata(self, answer: Answer) -> Answer:
        wrong, metadata = self.misbehaviours, json.loads(answer.body)
        if "another-issuer-in-metadata" in wrong:
            metadata["issuer"] = OTHER
        if "no-pkce-in-metadata" in wrong:
            del metadata["code_challenge_methods_supported"]
        if "plain-pkce-in-metadata" in wrong:
            metadata["code_challenge_methods_supported"] = ["plain"]
        for misbehaviour, base in (
            ("plain-http-endpoints", "http://login.example"),
            ("private-endpoints", "https://169.254.169.254"),
        ):
            if misbehaviour in wrong:
                metadata |= {f"{name}_endpoint": f"{base}/{name}" for name in ENDPOINTS}
        if "huge-metadata" in wrong:
            metadata["padding"] = "x" * 2_000_000
        return attrs.evolve(answer, body=json.dumps(metadata).encode())

    def _of_tokens(self, answer: Answer, form: Mapping[str, str]) -> Answer:
        wrong, given = self.misbehaviours, json.loads(answer.body)
        if answer.status != 200:
            return answer
        if {"tokens-for-another-resource", "expired-tokens"} & wrong:
            given["access_token"] = self._another_token(given["access_token"])
        if "odd-token-type" in wrong:
            given["token_type"] = "mac"
        if "no-access-token" in wrong:
            del given["access_token"]
        if "same-refresh-token" in wrong and form["grant_type"] == "refresh_token":
            given["refresh_token"] = form["refresh_token"]
            self._issued._refresh[form["refresh_token"]].is_used = False
        if "no-refresh-token" in wrong:
            given.pop("refresh_token", None)
        return attrs.evolve(answer, body=json.dumps(given).encode())

    def _another_token(self, token: str) -> str:
        said = self._issued.introspect(token)
        is_for_another = "tokens-for-another-resource" in self.misbehaviours
        return self.issue(
            subject=said["sub"],
            client_id=said["client_id"],
            scopes=said["scope"].split(),
            resource=f"{OTHER}/mcp" if is_for_another else said.get("aud"),
            lifetime=-60.0 if "expired-tokens" in self.misbehaviours else None,
            key=said.get("cnf", {}).get("jkt"),
        )

    def _of_redirects(self, answer: Answer) -> Answer:
        wrong, target = self.misbehaviours, answer.headers.get("location")
        if target is None:
            return answer
        parts = urlsplit(target)
        said: dict[str, Any] = dict(parse_qsl(parts.query))
        for name, another in (("state", "another"), ("iss", OTHER)):
            word = "issuer" if name == "iss" else name
            if f"another-{word}-in-answer" in wrong:
                said[name] = another
            if f"no-{word}-in-answer" in wrong:
                said.pop(name, None)
        location = parts._replace(query=urlencode(said)).geturl()
        return attrs.evolve(answer, headers={**answer.headers, "location": location})
