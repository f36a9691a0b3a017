"""`POST /v1/chat/completions`."""

from refactx.server.chat.route import chat_router

__all__ = ["chat_router"]
