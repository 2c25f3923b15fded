"""What a person does to plans, and what is seen of it."""

from pathlib import Path

from behave import given, then, when
from stage import call, finish

TASK = "leave a note"
NOTE = call("write_file", path="note.txt", content="a note\n")
MORE = call("write_file", path="more.txt", content="more\n")
COMMAND = call("execute_command", command="echo a note > note.txt")


def run(context, *options):
    words = ("run", TASK, "--model", context.model, "--in", "process", "--validate", "")
    context.stage.ask(*words, *options)


@given('a model that writes "note.txt" by a command')
def commanding(context):
    # A finish without any change is asked back once.
    context.model = context.stage.script(COMMAND, finish("noted"), finish("noted"))


@when('I run its task under the profile "{profile}"')
def run_under(context, profile):
    run(context, "--automation-profile", profile)


@given('a strategized task of a model that writes "note.txt"')
def strategized_task(context):
    context.model = context.stage.script(NOTE, finish("noted"))
    context.stage.keep_project("shop")
    context.stage.keep_action("jot", {"goal": TASK})
    context.stage.told(
        *("plan", "use", "jot", "shop", "--in", "process"),
        *("--agent", "model", "--model", context.model),
    )


@given('an executed task of a model that writes "note.txt"')
def executed_task(context):
    context.model = context.stage.script(NOTE, finish("noted"))
    run(context)


@given('an executed task of a model that writes "note.txt", then "more.txt"')
def executed_task_with_more(context):
    replies = (NOTE, finish("noted"), MORE, finish("more"))
    context.model = context.stage.script(*replies)
    run(context)


@given("the model is gone")
def model_gone(context):
    Path(context.model.removeprefix("scripted:")).unlink()


@then('the plan waits for the approval of "{name}"')
def waits_for_approval(context, name):
    assert context.stage.status()["approval"]["name"] == name, context.stage.status()["approval"]


@then('the plan waits for "{words}"')
def waits_for(context, words):
    assert words in context.stage.status()["waiting"]["for"], context.stage.status()["waiting"]


@then('it would "{step}"')
def would(context, step):
    assert step in context.stage.said.data["would"]["steps"], context.stage.said.data["would"]


@then('no event is newer than "{kind}"')
def newest(context, kind):
    assert context.stage.events()[-1]["event"] == kind, context.stage.events()[-1]


@then('"{text}" was told in one turn')
def told_once(context, text):
    turns = context.stage.events("TurnTaken")
    assert len([turn for turn in turns if text in turn.get("guidance", "")]) == 1, turns


@then('the call of "{name}" ended with "{code}"')
def call_ended(context, name, code):
    asked = {e["call_id"]: e["name"] for e in context.stage.events("ToolCallRequested")}
    ends = context.stage.events("ToolCallSettled")
    found = [end.get("error") for end in ends if asked[end["call_id"]] == name]
    assert found == [code], found


@then('the change set holds "{path}"')
def changeset_holds(context, path):
    files = [each["path"] for each in context.stage.status()["changeset"]["files"]]
    assert path in files, files


@then('the next strategy is told "{text}"')
def strategy_is_told(context, text):
    (reverted,) = context.stage.events("Reverted")
    assert text in reverted["reason"], reverted
