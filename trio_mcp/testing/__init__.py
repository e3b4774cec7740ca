"""What people test their own with: transports (`ChannelTests`), and whoever logs in (`AuthorizationServer`).

Nothing here imports pytest.
"""

from ._answers import ReceivedRequest as ReceivedRequest
from ._authorization_server import AuthorizationServer as AuthorizationServer
from ._channel_tests import ChannelTests as ChannelTests
from ._issuing import AuthorizationClient as AuthorizationClient
from ._issuing import Misbehaviour as Misbehaviour

__all__ = ["AuthorizationClient", "AuthorizationServer", "ChannelTests", "Misbehaviour", "ReceivedRequest"]
