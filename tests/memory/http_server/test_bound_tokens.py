"""Tokens that are bound to a key (RFC 9449) or to a certificate (RFC 8705), and clients known by a certificate."""
# pyright: reportArgumentType=false, reportUnknownMemberType=false
# trustme takes the contexts of a library that is not here as well.

from __future__ import annotations

import base64
import json
import warnings
from typing import Any

import pytest
from http_raw import call_tool, open_raw
from http_server_fixtures import EVERY_HOST
from inside_protection import (
    DpopKey,
    Overdrawn,
    ProofRefused,
    ProofRules,
    UsedProofs,
    protected_resource_module,
    token_hash,
)
from shared.http_server_bound_tokens import (
    AUTHORIZATION,
    KEY,
    RESOURCE,
    TOKEN,
    make_server,
    memory,
    proof,
    protection,
    signed,
)

from trio_mcp import (
    CertificateVerifier,
    ClientCertificate,
)


@pytest.mark.usefixtures("under")
async def test_a_token_is_good_with_a_proof_for_each_request() -> None:
    """RFC 9449, sections 4.3 and 7.1: of this request, by its key, and once."""
    async with open_raw(make_server(), auth=protection()) as raw:
        good = signed(proof())
        assert (await raw.send(call_tool("whoami"), good)).status == 200
        again = await raw.send(call_tool("whoami"), good)
        assert again.status == 401
        assert again.headers["www-authenticate"].startswith('DPoP error="invalid_dpop_proof"')
        assert (await raw.send(call_tool("whoami"), signed(proof()))).status == 200


@pytest.mark.usefixtures("under")
async def test_another_proof_is_refused(subtests: pytest.Subtests) -> None:
    """Each check of section 4.3, and the digest of the body where there is one."""
    rows: list[tuple[dict[str, Any], str]] = [
        ({"method": "GET"}, "invalid_dpop_proof"),
        ({"url": "http://localhost:8000/other"}, "invalid_dpop_proof"),
        ({"url": "https://evil.test/mcp"}, "invalid_dpop_proof"),
        ({"ago": 400}, "invalid_dpop_proof"),
        ({"ago": -400}, "invalid_dpop_proof"),
        ({"access_token": "another"}, "invalid_dpop_proof"),
        ({"access_token": None}, "invalid_dpop_proof"),
        ({"by": DpopKey()}, "invalid_token"),
        ({"body": b"{}"}, "invalid_dpop_proof"),
    ]
    async with open_raw(make_server(), auth=protection()) as raw:
        for changes, error in rows:
            with subtests.test(changes=changes, error=error):
                refused = await raw.send(call_tool("whoami"), signed(proof(**changes)))
                assert refused.status == 401
                assert f'error="{error}"' in refused.headers["www-authenticate"]


@pytest.mark.usefixtures("under")
async def test_a_bound_token_is_no_bearer_token() -> None:
    """And one that is not bound needs no proof, unless all must be (section 7.2)."""
    plain = AUTHORIZATION.issue(resource=RESOURCE)
    for dpop, statuses in (("accepted", [401, 401, 200]), ("required", [401, 401, 401]), (None, [401, 401, 200])):
        async with open_raw(make_server(), auth=protection(dpop=dpop)) as raw:
            tried = (
                {"Authorization": f"Bearer {TOKEN}"},
                signed(proof(access_token=plain), plain),
                {"Authorization": f"Bearer {plain}"},
            )
            answers = [await raw.send(call_tool("whoami"), headers) for headers in tried]
            assert [answer.status for answer in answers] == statuses
            bound = await raw.send(call_tool("whoami"), signed(proof()))
            assert bound.status == (401 if dpop is None else 200)
            refused = await raw.send(call_tool("whoami"))
            assert refused.headers["www-authenticate"].startswith("DPoP" if dpop == "required" else "Bearer")


@EVERY_HOST
@pytest.mark.usefixtures("under")
async def test_a_proof_needs_the_nonce_of_the_server() -> None:
    """Section 9: it shows that the proof is new. Each answer brings the current one."""
    async with open_raw(make_server(), auth=protection(dpop_nonces=True)) as raw:
        asked = await raw.send(call_tool("whoami"), signed(proof()))
        assert (asked.status, "use_dpop_nonce" in asked.headers["www-authenticate"]) == (401, True)
        good = await raw.send(call_tool("whoami"), signed(proof(nonce=asked.headers["dpop-nonce"])))
        assert (good.status, good.headers["dpop-nonce"]) == (200, asked.headers["dpop-nonce"])


def test_the_clients_url_counts_and_not_the_proxys() -> None:
    """Behind a proxy the request looks otherwise; scheme, case and the default port make no difference."""
    rules = ProofRules("https://mcp.test/mcp", None, memory())
    for url, path in (
        ("https://mcp.test/mcp", "/inner"),
        ("HTTPS://MCP.test:443/mcp", "/inner"),
        ("https://mcp.test/mcp?x=1#y", "/mcp"),
        ("https://mcp.test/messages", "/messages"),
    ):
        made = KEY.prove("POST", url, now=5.0, access_token="t")
        rules.check([made], client="ann", method="POST", path=path, token="t", key=KEY.thumbprint, now=5.0)
    made = KEY.prove("POST", "https://mcp.test/mcp", now=5.0, access_token="t")
    for proofs in ([], [made, made], ["nonsense"], ["x" * 10_000]):
        with pytest.raises(ProofRefused):
            rules.check(proofs, client="ann", method="POST", path="/mcp", token="t", key=KEY.thumbprint, now=5.0)


@pytest.mark.parametrize("size", [2048, 4096])
def test_a_proof_may_be_signed_by_an_rsa_key(size: int) -> None:
    """Whose public half is in its header, and takes more room than others."""
    from joserfc import jwt
    from joserfc.jwk import RSAKey

    key = RSAKey.generate_key(size)
    public = key.as_dict(private=False)
    jwk = {name: public[name] for name in ("kty", "n", "e")}
    said = KEY.prove("POST", "https://mcp.test/mcp", now=5.0, access_token="t").split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(said + "=" * (-len(said) % 4)))
    made = jwt.encode({"typ": "dpop+jwt", "alg": "PS256", "jwk": jwk}, claims, key, algorithms=["PS256"])
    rules = ProofRules("https://mcp.test/mcp", None, memory())
    rules.check([made], client="ann", method="POST", path="/mcp", token="t", key=key.thumbprint(), now=5.0)


def test_a_proof_that_holds_anything_is_refused_and_no_failure(subtests: pytest.Subtests) -> None:
    """It is written by a client: whatever is in it is that client's mistake (section 4.3), and costs no log."""
    rows: list[dict[str, Any] | str] = [
        {"iat": 10**400},
        {"iat": float("nan")},
        {"nonce": []},
        {"nonce": {}},
        {"htu": "http://["},
        {"htu": "https://mcp.test:x/mcp"},
        "[" * 1_500 + "]" * 1_500,
    ]
    for changes in rows:
        with subtests.test(changes=str(changes)[:50]):
            check_a_proof(changes)


def check_a_proof(changes: dict[str, Any] | str) -> None:
    """Check a proof that is signed as it should be, and says this."""
    from joserfc import jws
    from joserfc.jwk import ECKey

    rules = ProofRules("https://mcp.test/mcp", b"secret", memory())
    key = ECKey.generate_key("P-256")
    header = {"typ": "dpop+jwt", "alg": "ES256", "jwk": key.as_dict(private=False)}
    said: Any = {"jti": "1", "htm": "POST", "htu": "https://mcp.test/mcp", "iat": 5, "ath": token_hash("t")}
    said["nonce"] = rules.nonce(5.0)
    payload = changes if isinstance(changes, str) else json.dumps({**said, **changes})
    made = jws.serialize_compact(
        header, payload, key, registry=jws.JWSRegistry(algorithms=["ES256"], strict_check_header=False)
    )
    with pytest.raises(ProofRefused):
        rules.check([made], client="ann", method="POST", path="/mcp", token="t", key=key.thumbprint(), now=5.0)


def test_the_id_of_a_proof_may_be_any_text() -> None:
    """Also half of a pair of surrogates, which JSON can name; it is good once like any other."""
    used = UsedProofs(memory())
    used.use("ann", ("key", "\ud800"), 300.0, 0.0)
    with pytest.raises(ProofRefused, match="before"):
        used.use("ann", ("key", "\ud800"), 300.0, 0.0)


def test_nonces_grow_old() -> None:
    """The last one is good for a while longer."""
    rules = ProofRules("https://mcp.test/mcp", b"secret", memory())

    def is_good(nonce: str | None, now: float) -> bool:
        made = KEY.prove("POST", "https://mcp.test/mcp", now=now, access_token="t", nonce=nonce)
        try:
            rules.check([made], client="ann", method="POST", path="/mcp", token="t", key=KEY.thumbprint, now=now)
        except ProofRefused as refused:
            assert refused.error == "use_dpop_nonce"
            return False
        return True

    nonce = rules.nonce(1_000.0)
    assert [is_good(nonce, now) for now in (1_000.0, 1_150.0, 1_250.0)] == [True, True, False]
    assert not is_good(None, 1_000.0)
    assert not is_good("made up", 1_000.0)


def test_used_proofs_are_remembered_for_as_long_as_they_are_good() -> None:
    """And no longer, nor what was borrowed for them."""
    lent = memory()
    used = UsedProofs(lent)
    used.use("ann", ("key", "1"), 300.0, 0.0)
    with pytest.raises(ProofRefused, match="before"):
        used.use("ann", ("key", "1"), 300.0, 300.0)
    used.use("ann", ("other", "1"), 600.0, 299.0)
    assert (len(used), lent.lent_to("ann")) == (2, 2 * protected_resource_module.PROOF_BYTES)
    used.use("bob", ("key", "1"), 500.0, 301.0)
    assert (len(used), lent.lent_to("ann")) == (2, protected_resource_module.PROOF_BYTES)
    used.use("bob", ("key", "2"), 2_000.0, 1_000.0)
    assert (len(used), lent.lent_to("ann"), lent.statistics().clients) == (1, 0, 1)


@pytest.mark.parametrize("scarce", ["places", "memory"])
def test_nobody_uses_up_the_room_of_others(scarce: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes next finds room, however many take all they can get, with however many keys."""
    monkeypatch.setattr(protected_resource_module, "MAX_PROOFS", 1_000 if scarce == "places" else 100_000)
    used = UsedProofs(memory(1_000 * protected_resource_module.PROOF_BYTES if scarce == "memory" else 10**9))

    def take(client: str, most: int) -> int:
        for number in range(most):
            try:
                used.use(client, (f"{client} {number % 50}", str(number)), 300.0, 0.0)
            except Overdrawn:
                return number
        return most

    assert take("mallory", 2_000) == 500, "half of it, with fifty keys"
    assert take("honest", 100) == 100
    greedy = [take(f"mallory {number}", 2_000) for number in range(4)]
    assert min(greedy) >= 10
    assert take("next", 5) == 5
    with pytest.raises(ProofRefused):
        used.use("honest", ("honest 0", "0"), 300.0, 0.0)


@pytest.mark.usefixtures("under")
async def test_who_sends_too_many_proofs_is_told_when_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """And another client is served meanwhile; one token more makes no difference."""
    monkeypatch.setattr(protected_resource_module, "MAX_PROOFS", 4)
    other, further = DpopKey(), DpopKey()
    own = AUTHORIZATION.issue(resource=RESOURCE, key=further.thumbprint)
    of_bob = AUTHORIZATION.issue(resource=RESOURCE, key=other.thumbprint, subject="bob")
    async with open_raw(make_server(), auth=protection()) as raw:

        async def ask(token: str, key: DpopKey) -> Any:
            return await raw.send(call_tool("whoami"), signed(proof(by=key, access_token=token), token))

        assert [(await ask(TOKEN, KEY)).status for _ in range(2)] == [200, 200]
        refused = await ask(own, further)
        assert (refused.status, refused.headers["retry-after"]) == (429, "60")
        assert (await ask(of_bob, other)).status == 200


@pytest.mark.parametrize("algorithm", ["EdDSA", "Ed25519"])
def test_a_proof_may_be_signed_by_an_edwards_key(algorithm: str) -> None:
    """By its name of RFC 8037, or of RFC 9864; without a warning of either."""
    from joserfc import jws
    from joserfc.jwk import OKPKey

    key = OKPKey.generate_key("Ed25519")
    said = {"jti": "1", "htm": "POST", "htu": "https://mcp.test/mcp", "iat": 5, "ath": token_hash("t")}
    header = {"typ": "dpop+jwt", "alg": algorithm, "jwk": key.as_dict(private=False)}
    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = jws.serialize_compact(header, json.dumps(said), key, registry=registry)
    rules = ProofRules("https://mcp.test/mcp", None, memory())
    rules.check([made], client="a", method="POST", path="/mcp", token="t", key=key.thumbprint(), now=5.0)


def test_certificates_say_who_they_are() -> None:
    """RFC 4514, with what would end a part of a name escaped; the names of workloads first."""
    fields: dict[str, Any] = {
        "subject": ((("organizationName", "A, B"),), (("commonName", "x"), ("other", "y"))),
        "subjectAltName": (("DNS", "x.test"), ("URI", "spiffe://test/x")),
    }
    certificate = ClientCertificate(b"der", fields)
    assert certificate.subject == "CN=x+other=y,O=A\\, B"
    assert certificate.issuer == ""
    principal = CertificateVerifier(scopes={"a"}).identify(certificate)
    assert principal is not None
    assert principal.subject == "spiffe://test/x"
    assert principal.scopes == {"a"}
    assert CertificateVerifier().identify(ClientCertificate(b"der")) is None
    issuers = [
        CertificateVerifier().identify(ClientCertificate(b"", {**fields, "issuer": ((("commonName", name),),)}))
        for name in ("a b", "a%20b")
    ]
    assert len(set(issuers)) == 2, "no issuer has the name of another"
    assert CertificateVerifier(subject=lambda _: None).identify(certificate) is None
