"""The door of the tests to servers that are protected: what they use of it and users do not.

Tests import private names from here alone, so that moving one changes one file.
"""

from __future__ import annotations

from trio_mcp._auth import _verifiers as verifiers_module
from trio_mcp._core._account import Overdrawn as Overdrawn
from trio_mcp._core._account import Pool as Pool
from trio_mcp._endpoint import _authorization as guard_module
from trio_mcp._endpoint._authorization import Guard as Guard
from trio_mcp._endpoint._authorization import open_guard as open_guard
from trio_mcp._oauth import _access_tokens as access_tokens_module
from trio_mcp._oauth import _protected_resource as protected_resource_module
from trio_mcp._oauth._access_tokens import JwtRules as JwtRules
from trio_mcp._oauth._access_tokens import TokenRefused as TokenRefused
from trio_mcp._oauth._access_tokens import TokenRules as TokenRules
from trio_mcp._oauth._access_tokens import VerificationKeys as VerificationKeys
from trio_mcp._oauth._access_tokens import read_token as read_token
from trio_mcp._oauth._access_tokens import scopes_in as scopes_in
from trio_mcp._oauth._access_tokens import with_implied as with_implied
from trio_mcp._oauth._dpop import DpopKey as DpopKey
from trio_mcp._oauth._dpop import token_hash as token_hash
from trio_mcp._oauth._protected_resource import ProofRefused as ProofRefused
from trio_mcp._oauth._protected_resource import ProofRules as ProofRules
from trio_mcp._oauth._protected_resource import UsedProofs as UsedProofs
from trio_mcp._oauth._protected_resource import challenge as challenge
from trio_mcp._oauth._protected_resource import metadata_url as metadata_url
from trio_mcp._oauth._signed import ALGORITHMS as ALGORITHMS
from trio_mcp.testing._answers import Answer as Answer
from trio_mcp.testing._answers import json_answer as json_answer
from trio_mcp.testing._answers import page_of as page_of

__all__ = ["access_tokens_module", "guard_module", "protected_resource_module", "verifiers_module"]
