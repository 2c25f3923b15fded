"""Translates what went wrong at a provider into the domain's errors, once and for all formats."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchyard.clients.http import HttpTrouble, Trouble
from patchyard.domain.errors import ModelFailed, ModelUnavailable
from patchyard.models.keys import Key
from patchyard.toolbox.wire import loaded

TOO_LONG = re.compile(
    r"context[ _]?(length|window|size)|maximum context|too many tokens|prompt is too long|"
    r"exceeds? the (available )?context|num_ctx|input length",
    re.IGNORECASE,
)
NO_QUOTA = re.compile(r"billing|quota", re.IGNORECASE)
NO_CREDIT = "credit balance is too low"  # said with 400
LONGEST_WORDS = 400  # characters of a provider's own words
BEGINNING = 80  # characters of an answer that could not be read, as an error repeats it
AGAIN = "nothing is lost: `agents plan resume` asks again"
_TAGS = re.compile(r"<(style|script)\b.*?</\1\s*>|<[^>]*>", re.DOTALL | re.IGNORECASE)
UNREACHED: Mapping[Trouble, str] = {  # and the cure, where it is not the address
    Trouble.REFUSED: "",
    Trouble.DNS: "",
    Trouble.TLS: "name the file of the authority that signed its certificate in SSL_CERT_FILE",
    Trouble.PROXY: "check HTTPS_PROXY (http://USER:PASSWORD@HOST:PORT), or name the host in "
    "NO_PROXY",
}
CERTIFICATES: Mapping[str, str] = {  # and the cure, by OpenSSL's words
    "certificate has expired": "its certificate is over: let who runs it renew that, and check the "
    "time of this machine (`date`)",
    "certificate is not yet valid": "check the time of this machine (`date`)",
    "is not valid for": "its certificate is for another host: check the name in `base_url`",
    "mismatch": "its certificate is for another host: check the name in `base_url`",
}
NO_TOOLS = re.compile(  # vLLM, Ollama and gateways
    r"(does|do) not support (tools|tool|function)|requires --enable-auto-tool-choice|"
    r"tools? (is|are) not supported|that support tool use",
    re.IGNORECASE,
)
NO_IMAGES = re.compile(r"\bimages?\b|image_url|input_image|multimodal|vision", re.IGNORECASE)
FILTERED = re.compile(
    r"content_filter|content filtering|content[ _]policy|bio_policy", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class Provider:
    """Whom an error is about, as people know it."""

    name: str  # openai, ollama, house, ...
    base_url: str
    model: str
    key: Key
    has_tools: bool = True  # False: the configuration says that the model cannot call any
    has_images: bool | None = None  # what it says of whether the model can see
    missing_hint: str = ""  # the cure for a model that is not there
    unreachable_hint: str = ""  # the cure for a provider that is not there

    @property
    def full_name(self) -> str:
        """PROVIDER:MODEL."""
        return f"{self.name}:{self.model}"

    def require_key(self) -> None:
        """Raise ModelUnavailable where a key is named and not there."""
        if self.key.is_named and not self.key.is_set:
            raise ModelUnavailable(
                f"{self.name} needs a key",
                hint=f"put it into {self.key.place}",
                details={"kind": "no_key", "provider": self.name},
            )

    def translated(self, trouble: HttpTrouble) -> ModelFailed | ModelUnavailable:
        """Return the error that says what is wrong and what cures it; the caller chains it."""
        if trouble.kind is Trouble.STATUS:
            return self._status(trouble, trouble.status or 0)
        if trouble.kind in UNREACHED:
            return ModelUnavailable(
                f"{self.name} cannot be reached: {trouble.message}",
                hint=f"{self._cure(trouble)}; {AGAIN}",
                details={"kind": str(trouble.kind), "provider": self.name},
            )
        came = self.key.hide(" ".join(trouble.body.split()))[:BEGINNING]
        began = f": it begins with {came!r}" if came else ""
        return ModelFailed(
            f"{self.name}: {trouble.message}{began}",
            hint=AGAIN,
            details={"kind": str(trouble.kind), "provider": self.name},
            retryable=True,
        )

    def told_late(self, data: Mapping[str, Any], status: int) -> ModelFailed | ModelUnavailable:
        """Return the error that came as an event of an answer that had begun well."""
        body = json.dumps({"error": {"message": said_by(json.dumps(data), self.key)}})
        return self.translated(
            HttpTrouble(Trouble.STATUS, "an error in the answer", status=status, body=body)
        )

    def _cure(self, trouble: HttpTrouble) -> str:
        for words, cure in CERTIFICATES.items():
            if trouble.kind is Trouble.TLS and words in trouble.message:
                return cure
        return (
            UNREACHED[trouble.kind] or self.unreachable_hint or f"check the address {self.base_url}"
        )

    def _status(self, trouble: HttpTrouble, status: int) -> ModelFailed | ModelUnavailable:
        said = said_by(trouble.body, self.key)
        details = {"status": status, "provider": self.name, "kind": "status"}
        if status in {401, 403}:
            return self._key_refused(said, details)
        if status == 404:
            return ModelUnavailable(
                f"{self.name} has no model {self.model!r}: {said}",
                hint=self.missing_hint or self._name_hint(),
                details=details,
            )
        if status == 407:
            return ModelUnavailable(
                f"{self.name} cannot be reached: the proxy answered 407",
                hint=UNREACHED[Trouble.PROXY],
                details=details | {"kind": str(Trouble.PROXY)},
            )
        if trouble.sent_on_to:
            place = self.key.hide(trouble.sent_on_to)[:LONGEST_WORDS]
            return ModelUnavailable(
                f"{self.name} sends on to {place}, which is not followed",
                hint=f"write the new address as `base_url` of {self.name}, if you trust it",
                details=details | {"kind": "redirected"},
            )
        return self._failed(trouble, status, said, details)

    def _name_hint(self) -> str:
        return f"check the name, and that models are asked below {self.base_url} (often .../v1)"

    def _failed(
        self, trouble: HttpTrouble, status: int, said: str, details: dict[str, object]
    ) -> ModelFailed:
        wait = trouble.retry_after_s
        if status == 402 or _is_out_of_money(trouble, status):
            return ModelFailed(
                f"{self.name}: {said}",
                hint="the account behind the key has no credit left",
                details=details | {"kind": "no_quota"},
            )
        if status == 429:
            return ModelFailed(
                f"{self.name} asks to slow down: {said}",
                hint=f"wait {f'{wait:g} s' if wait else 'a while'}; {AGAIN}",
                details=details | {"kind": "rate_limited", "retry_after_s": wait},
                retryable=True,
            )
        if status == 413 or (status in {400, 422, 500} and TOO_LONG.search(trouble.body)):
            return self.too_long(said)
        if FILTERED.search(trouble.body):
            return ModelFailed(
                f"{self.name}'s content filter refused the request: {said}",
                hint="say the task in other words, or take another model",
                details=details | {"kind": "filtered"},
            )
        passing = status >= 500 or status == 408
        return ModelFailed(
            f"{self.name} answered {status}: {said}",
            hint=AGAIN if passing else f"look the model up: `agents model check {self.full_name}`",
            details=details,
            retryable=passing,
        )

    def too_long(self, said: str) -> ModelFailed:
        """Return the error of a request that does not fit the model's window."""
        return ModelFailed(
            f"the request is too long for {self.full_name}: {said}",
            hint=f"state the window as `context_tokens` of {self.name} in models.yaml, so that "
            "room is made in time; or take a model with a larger one",
            details={"kind": "context_too_long", "provider": self.name},
        )

    def _key_refused(self, said: str, details: dict[str, object]) -> ModelUnavailable:
        if not self.key.is_named:
            hint = f"name the variable that holds the key: `api_key_env` of provider {self.name}"
        elif self.key.is_set:
            hint = f"the key in {self.key.place} is not accepted; put a valid one there"
        else:
            hint = f"put a key into {self.key.place}"
        return ModelUnavailable(f"{self.name} refused the key: {said}", hint=hint, details=details)


def _is_out_of_money(trouble: HttpTrouble, status: int) -> bool:
    """Whether waiting is of no use; some speak of a quota and say when to come again."""
    if status != 429:
        return status == 400 and NO_CREDIT in trouble.body
    if "insufficient_quota" in trouble.body:
        return True
    return trouble.retry_after_s is None and bool(NO_QUOTA.search(trouble.body))


def said_by(body: str, key: Key) -> str:
    """Return the provider's own words out of an error's body, one line, shortened.

    The key is taken out first: cut off in its middle, it would not be known any more.
    """
    try:
        data = loaded(body)
    except ValueError:
        data = None
    words = _TAGS.sub(" ", body) if body.lstrip().startswith("<") else body
    if isinstance(data, dict):
        inner = data.get("error", data)
        words = inner if isinstance(inner, str) else body
        if isinstance(inner, dict) and isinstance(inner.get("message"), str):
            words = inner["message"]
    return key.hide(" ".join(words.split()))[:LONGEST_WORDS] or "no reason given"


__all__ = ["AGAIN", "NO_IMAGES", "NO_TOOLS", "Provider", "said_by"]
