"""What all wrappers of a model share: what they do not change is the model's own."""

from patchyard.contracts.model import Model
from patchyard.domain.messages import ModelFacts


class WrappedModel:
    """A part of contracts.model.Model; a wrapper says how it asks."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def facts(self) -> ModelFacts:
        """The model's own facts."""
        return self._model.facts

    async def prepare(self) -> ModelFacts:
        """Prepare the model."""
        return await self._model.prepare()

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()


__all__ = ["WrappedModel"]
