"""The transports: each carries messages and says how a request is given up. They know no handlers."""
