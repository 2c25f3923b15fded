"""Takes out of an answer the key that its provider was sent, which some repeat."""

from dataclasses import replace

from patchyard.domain.messages import Message, ModelReply, ModelRequest
from patchyard.domain.secret_forms import replaced
from patchyard.models.keys import HIDDEN, Key

LEAST_KEY = 20  # characters; shorter ones (`EMPTY`, `not-needed`) are words that code may hold


def unrepeated(reply: ModelReply, request: ModelRequest, key: Key) -> ModelReply:
    """Return the reply without the key; where it stands as it is, its other writings go, too.

    A key that stood in the request stays: it is the repository's, and an edit of it has to fit.
    Thoughts go back as they came or not at all, so those that hold it are left out.
    """
    secret = key.known
    if len(secret) < LEAST_KEY or not _holds(reply, secret):
        return reply
    if any(secret in text for message in request.messages for text in _texts(message)):
        return reply

    def clean(text: str) -> str:
        return replaced(text, (secret,), HIDDEN)

    message = reply.message
    thoughts = message.thoughts
    if thoughts is not None and any(clean(one.block) != one.block for one in thoughts.blocks):
        thoughts = None
    calls = tuple(
        replace(each, id=clean(each.id), name=clean(each.name), arguments=clean(each.arguments))
        for each in message.calls
    )
    own = replace(message, text=clean(message.text), calls=calls, thoughts=thoughts)
    return replace(reply, message=own, model=clean(reply.model))


def _holds(reply: ModelReply, secret: str) -> bool:
    thoughts = reply.message.thoughts
    kept = [one.block for one in thoughts.blocks] if thoughts is not None else []
    names = [text for call in reply.message.calls for text in (call.id, call.name)]
    return any(secret in text for text in (reply.model, *names, *kept, *_texts(reply.message)))


def _texts(message: Message) -> list[str]:
    return [message.text, *(call.arguments for call in message.calls)]


__all__ = ["LEAST_KEY", "unrepeated"]
