"""`npm link` in setup: what is linked is the workspace's code, never the user's checkout."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.worksite import Worksite, call
from patchyard.engine.replaying import replay
from patchyard.engine.report import plan_data

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.service("bubblewrap"),
    pytest.mark.service("overlay"),
    pytest.mark.service("node"),
]

FILES = {
    "package.json": '{"name": "app", "version": "1.0.0"}\n',
    "lib/package.json": '{"name": "greeting", "version": "1.0.0", "main": "index.js"}\n',
    "lib/index.js": 'module.exports = () => "old";\n',
    "check.js": 'process.exit(require("greeting")() === "new" ? 0 : 1);\n',
    ".gitignore": "node_modules/\n.npm/\n",
}
LINK = "mkdir -p .npm/lib && npm_config_prefix=$PWD/.npm npm link --no-audit --no-fund ./lib"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Worksite]:
    made = Worksite.make(tmp_path, FILES)
    yield made
    await made.clear()


async def test_a_linked_package_is_the_new_code_in_work_and_proof(site: Worksite) -> None:
    edit = call("write_file", path="lib/index.js", content='module.exports = () => "new";\n')
    look = call("execute_command", command="test -L node_modules/greeting && node check.js")
    async with site.open() as (equipment, workflow):
        asked = site.asked(edit, look, setup=(LINK,), validate=("node check.js",))
        plan_id = await site.made(workflow, asked)
        await workflow.run(plan_id)
        data = await plan_data(await site.ledger(equipment, plan_id))
        again = await replay(equipment, workflow, plan_id)
    assert [file["path"] for file in data["changeset"]["files"]] == ["lib/index.js"]
    assert again.is_same
    (gate,) = data["validation"]
    assert (gate["before"]["passed"], gate["passed"]) == (False, True)
    assert (site.repository / "lib/index.js").read_text() == FILES["lib/index.js"]
