"""The door of the tests to OAuth: what they use of it and users do not.

Tests import private names from here alone, so that moving one changes one file.
"""

from __future__ import annotations

from trio_mcp._auth import _person as _person
from trio_mcp._auth._fetching import Fetcher as Fetcher
from trio_mcp._auth._listener import OpenPage as OpenPage
from trio_mcp._auth._listener import open_listener as open_listener
from trio_mcp._auth._listener import path_for as path_for
from trio_mcp._auth._session import TokenSession as TokenSession
from trio_mcp._auth._stores import person_of as person_of
from trio_mcp._oauth._challenges import format_challenge as format_challenge
from trio_mcp._oauth._challenges import our_challenge as our_challenge
from trio_mcp._oauth._challenges import parse_challenges as parse_challenges
from trio_mcp._oauth._clients import OAuthClient as OAuthClient
from trio_mcp._oauth._clients import basic_credentials as basic_credentials
from trio_mcp._oauth._clients import check_metadata_document as check_metadata_document
from trio_mcp._oauth._clients import check_metadata_url as check_metadata_url
from trio_mcp._oauth._clients import choose_method as choose_method
from trio_mcp._oauth._clients import client_assertion as client_assertion
from trio_mcp._oauth._clients import metadata_document as metadata_document
from trio_mcp._oauth._clients import read_registration as read_registration
from trio_mcp._oauth._clients import registration_body as registration_body
from trio_mcp._oauth._code import begin_login as begin_login
from trio_mcp._oauth._code import code_challenge as code_challenge
from trio_mcp._oauth._code import read_device_code as read_device_code
from trio_mcp._oauth._code import scopes_to_request as scopes_to_request
from trio_mcp._oauth._dpop import DpopKey as DpopKey
from trio_mcp._oauth._dpop import InvalidProof as InvalidProof
from trio_mcp._oauth._dpop import content_digest as content_digest
from trio_mcp._oauth._dpop import read_proof as read_proof
from trio_mcp._oauth._dpop import thumbprint as thumbprint
from trio_mcp._oauth._metadata import AuthorizationServerMetadata as AuthorizationServerMetadata
from trio_mcp._oauth._metadata import Discovered as Discovered
from trio_mcp._oauth._metadata import Fetch as Fetch
from trio_mcp._oauth._metadata import Fetched as Fetched
from trio_mcp._oauth._metadata import address_in as address_in
from trio_mcp._oauth._metadata import canonical_resource as canonical_resource
from trio_mcp._oauth._metadata import discover as discover
from trio_mcp._oauth._metadata import is_public_address as is_public_address
from trio_mcp._oauth._metadata import is_resource_of as is_resource_of
from trio_mcp._oauth._metadata import server_metadata_urls as server_metadata_urls
from trio_mcp._oauth._metadata import tells_secrets as tells_secrets
from trio_mcp._oauth._tokens import Asked as Asked
from trio_mcp._oauth._tokens import TokenSet as TokenSet
from trio_mcp._oauth._tokens import holder_of as holder_of
from trio_mcp._oauth._tokens import read_exchanged as read_exchanged
from trio_mcp._oauth._tokens import read_token as read_token
from trio_mcp._oauth._tokens import token_request as token_request
