"""mini-swe-agent by its Python bindings as its own batch runs use it: nothing is saved.

The `mini` command always saves its trajectory; this is the same agent without.
"""

import yaml
from minisweagent import package_dir
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel


def main():
    """Take the steps with the settings that `mini` has."""
    settings = yaml.safe_load((package_dir / "config" / "mini.yaml").read_text())
    templates = {k: v for k, v in settings["agent"].items() if k.endswith("_template")}
    model = LitellmModel(model_name="openai/scripted", **settings["model"])
    environment = LocalEnvironment(**settings["environment"])
    DefaultAgent(model, environment, cost_limit=0, **templates).run("Take the steps.")


if __name__ == "__main__":
    main()
