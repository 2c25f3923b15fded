"""Checks what a provider of others answers: it is code that we did not write.

Whatever is not as the seam says is a ModelFailed that names the provider, what it did and the cure.
"""

import json
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from patchyard.contracts.provider import IMAGES, METHODS, WINDOW, TaskAction, TaskResponse
from patchyard.domain.errors import ModelFailed, UsageError
from patchyard.domain.messages import (
    Message,
    ModelFacts,
    ModelReply,
    ModelRequest,
    RequestedCall,
    Speaker,
    StopReason,
    Usage,
)
from patchyard.domain.tooling import finite
from patchyard.models.answering import CHARACTERS_PER_TOKEN, DEFAULT_TOKENS, believed
from patchyard.models.keys import hide

DEFECT = "provider_defect"  # kind of such failures
SAID = 300  # characters of what a provider raised


def require_provider(name: str, provider: object) -> None:
    """Raise UsageError for an object that is no ModelProvider; names what it lacks."""
    if isinstance(provider, type):
        raise UsageError(
            f"the provider {name} is the class {provider.__qualname__}, not an object of it",
            hint=f"register {provider.__qualname__}(...)",
        )
    lacking = [each for each in METHODS if not callable(getattr(provider, each, None))]
    if lacking:
        raise UsageError(
            f"the provider {name}, a {type(provider).__qualname__}, has no {', '.join(lacking)}",
            hint="implement patchyard.execution.ModelProvider: " + ", ".join(METHODS),
        )


def misbehaved(name: str, provider: object, what: str, cure: str) -> ModelFailed:
    """Return the error for a provider that did `what`."""
    kind = type(provider)
    return ModelFailed(
        f"the provider {name} ({kind.__module__}.{kind.__qualname__}) {what}",
        hint=cure,
        details={"kind": DEFECT, "provider": name.partition(":")[0]},
    )


def raised(name: str, provider: object, error: BaseException) -> ModelFailed:
    """Return the error for an exception of a provider; one of the system may pass."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    said = hide(" ".join(f"{type(error).__name__}: {_words(error)}".split()))[:SAID]
    failed = misbehaved(
        name,
        provider,
        f"raised {said}{place}",
        "mend the provider; what it raises by purpose is ModelFailed or ModelUnavailable",
    )
    if isinstance(error, OSError):  # TimeoutError and ConnectionError are such
        failed.retryable = True
        failed.details = {**failed.details, "kind": "provider_io"}
        failed.hint = "nothing is lost: `agents plan resume` asks again"
    return failed


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as odd:  # noqa: BLE001 - the exception is a stranger's too
        return f"(its words cannot be had: {type(odd).__name__})"


def facts_of(name: str, provider: Any) -> ModelFacts:
    """Return what a provider says of itself. Raises ModelFailed where it is not as it must be."""
    answers = {}
    for method in ("supports_tools", "supports_mcp"):
        answers[method] = getattr(provider, method)()
        if not isinstance(answers[method], bool):
            what = f"answered {_shape(answers[method])} to {method}()"
            raise misbehaved(name, provider, what, f"{method}() returns True or False")
    words = provider.get_capabilities()
    is_list = isinstance(words, Sequence) and not isinstance(words, (str, bytes))
    if not is_list or not all(isinstance(word, str) for word in words):
        what = f"answered {_shape(words)} to get_capabilities()"
        raise misbehaved(name, provider, what, f"return a list of texts, such as [{IMAGES!r}]")
    window = None
    for word in words:
        if word.startswith(WINDOW):
            size = word.removeprefix(WINDOW)
            if not (size.isascii() and size.isdecimal() and 0 < len(size) < 12 and int(size)):
                what = f"has the capability {word[:60]!r}"
                raise misbehaved(name, provider, what, f"write {WINDOW}TOKENS: {WINDOW}32768")
            window = int(size)
    return ModelFacts(
        name=name,
        context_tokens=window,
        has_tools=answers["supports_tools"],
        has_images=IMAGES in words,
    )


def reply_of(name: str, provider: object, answer: Any, request: ModelRequest) -> ModelReply:
    """Return a provider's answer as a model's reply.

    Raises ModelFailed for what is no answer, or more than was asked for.
    """
    stop = _checked(name, provider, answer)
    calls = tuple(
        _call(name, provider, action, number, request.turn)
        for number, action in enumerate(answer.actions)
    )
    texts = [answer.text, answer.model]
    texts += [text for call in calls for text in (call.id, call.name, call.arguments)]
    if not all(map(_is_encodable, texts)):
        what = "answered a text that UTF-8 cannot hold"
        raise misbehaved(name, provider, what, "decode what you receive as UTF-8")
    size = sum(map(len, texts))
    most = (request.max_output_tokens or DEFAULT_TOKENS) * CHARACTERS_PER_TOKEN
    if size > most:
        what = f"answered {size:,} characters, and {most:,} is the most"
        raise misbehaved(name, provider, what, "hold it to TaskRequest.max_output_tokens")
    message = Message(speaker=Speaker.ASSISTANT, text=answer.text, calls=calls)
    return ModelReply(
        message=message,
        usage=_usage(name, provider, answer, request, message),
        stop=StopReason.CALLS if calls and stop is StopReason.DONE else stop,
        model=answer.model or name.partition(":")[2],
    )


def _checked(name: str, provider: object, answer: Any) -> StopReason:
    """Return why an answer ended, when it is one. Raises ModelFailed."""
    if not isinstance(answer, TaskResponse):
        what = "answered nothing" if answer is None else f"answered {_shape(answer)}"
        cure = "execute_task() is `async` and returns a TaskResponse"
        raise misbehaved(name, provider, what, cure)
    wanted: Mapping[str, tuple[tuple[type, ...], str]] = {
        "text": ((str,), "it is a text"),
        "model": ((str,), "it is a text"),
        "actions": ((tuple, list), "actions are a tuple of TaskAction"),
    }
    for field, (kinds, cure) in wanted.items():
        if not isinstance(getattr(answer, field), kinds):
            what = f"answered {_shape(getattr(answer, field))} as `{field}`"
            raise misbehaved(name, provider, what, cure)
    if answer.stop not in list(StopReason):
        what = f"answered {_shape(answer.stop)} as `stop`"
        raise misbehaved(name, provider, what, f"one of {', '.join(StopReason)}")
    return StopReason(answer.stop)


def _call(name: str, provider: object, action: Any, number: int, turn: int) -> RequestedCall:
    def wrong(what: str, cure: str) -> ModelFailed:
        return misbehaved(name, provider, f"answered {what} as action {number + 1}", cure)

    if not isinstance(action, TaskAction):
        raise wrong(_shape(action), "each action is a TaskAction")
    called: Any = action.name
    own: Any = action.id
    arguments: Any = action.arguments
    if not isinstance(called, str) or not called:
        raise wrong(f"the name {_shape(called)}", "name one of TaskRequest.tools")
    if not isinstance(own, str):
        raise wrong(f"the id {_shape(own)}", "an id is a text; leave it out")
    if not isinstance(arguments, str):
        if not hasattr(arguments, "keys"):
            raise wrong(f"the arguments {_shape(arguments)}", "arguments are a mapping")
        try:
            arguments = json.dumps(dict(arguments), ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as error:
            said = f"arguments that are no JSON ({type(error).__name__})"
            raise wrong(said, "use texts, numbers, lists and mappings") from error
    return RequestedCall(id=own or f"call-{turn}-{number}", name=called, arguments=arguments)


def _usage(
    name: str, provider: object, answer: TaskResponse, request: ModelRequest, message: Message
) -> Usage:
    counts = {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens}
    for field, count in counts.items():
        is_count = isinstance(count, int) and not isinstance(count, bool) and count >= 0
        if count is not None and not is_count:
            what = f"answered {_shape(count)} as `{field}`"
            raise misbehaved(name, provider, what, "a whole number, 0 or more; None: not known")
    usd: Any = answer.usd
    if usd is not None and finite(usd, -1.0) < 0:
        what = f"answered {_shape(usd)} as `usd`"
        raise misbehaved(name, provider, what, "a number of dollars, 0 or more; None: not known")
    stated = Usage(
        input_tokens=answer.input_tokens or 0,
        output_tokens=answer.output_tokens or 0,
        usd=None if usd is None else float(usd),
    )
    return believed(stated, request, message)


def _shape(value: object) -> str:
    """Say what a value is, shortly, without trusting it to say so itself."""
    if value is None or isinstance(value, (bool, float)):
        return repr(value)
    if isinstance(value, int):
        return repr(value) if abs(value) < 10**20 else "a number of more than 20 digits"
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    return f"a {type(value).__qualname__}"


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


__all__ = ["DEFECT", "facts_of", "misbehaved", "raised", "reply_of", "require_provider"]
