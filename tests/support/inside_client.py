"""The door of the tests to the client: what they use of it and users do not.

Tests import private names from here alone, so that moving one changes one file.
"""

from __future__ import annotations

from trio_mcp._client import _open
from trio_mcp._client._caches import ClientCaches as ClientCaches
from trio_mcp._client._caches import OutputChecks as OutputChecks
from trio_mcp._client._config import read_config as read_config
from trio_mcp._client._connection import ClientIdentity as ClientIdentity
from trio_mcp._client._dispatch import NotificationHandlers as NotificationHandlers
from trio_mcp._client._dispatch import ServerMessages as ServerMessages
from trio_mcp._client._low_level import Answered as Answered
from trio_mcp._client._low_level import ClientSettings as ClientSettings
from trio_mcp._client._open import OURSELVES as OURSELVES
from trio_mcp._client._open import identity_of as identity_of
from trio_mcp._client._questions import KnownElicitations as KnownElicitations
from trio_mcp._client._questions import QuestionHandlers as QuestionHandlers
from trio_mcp._client._questions import Questions as Questions
from trio_mcp._client._questions import RootList as RootList
from trio_mcp._client._questions import fill_in as fill_in
from trio_mcp._client._reconnecting import Connector as Connector
from trio_mcp._client._reconnecting import ReconnectingConnection as ReconnectingConnection
from trio_mcp._client._subscriptions import Callbacks as Callbacks
from trio_mcp._client._subscriptions import Subscriptions as Subscriptions

open_module = _open
