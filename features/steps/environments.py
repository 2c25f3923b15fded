"""Where things ran, and which level of the chain decided."""

from arranging import run
from behave import given, then, when

UNSET = "unset"


@given('an action "{name}" that runs a command')
def running_action(context, name):
    running_action_with_tool(context, name, "execute_command", UNSET)


@given('an action "{name}" that runs a command, with its tool "{tool}" in "{kind}"')
def running_action_with_tool(context, name, tool, kind):
    steps = [{"run": "true"}, {"write_file": {"path": "note.txt", "content": "a note\n"}}]
    tools = {} if kind == UNSET else {tool: {"execution_environment": kind}}
    context.stage.keep_action(name, {"steps": steps, "tools": tools, "validate": []})


@given('the project\'s environment is "{kind}"')
def project_environment(context, kind):
    words = ("project", "context", "set", "shop", "execution_environment", kind)
    context.stage.prepare(words)


@given('a resource of the project whose environment is "{kind}"')
def linked_resource(context, kind):
    words = () if kind == UNSET else ("--execution-environment", kind)
    context.stage.prepare(
        ("resource", "add", "directory", "data", *words),
        ("project", "link-resource", "shop", "data"),
    )


@given('the repository\'s own configuration says that work runs in "{kind}"')
def repository_configuration(context, kind):
    text = f"execution_environment: {kind}\n"
    context.stage.commit({".patchyard/config.yaml": text})


@when('I use "{action}" on the project and execute it')
def use_and_execute(context, action):
    use_in_and_execute(context, action, UNSET)


@when('I use "{action}" on the project in "{kind}" and execute it')
def use_in_and_execute(context, action, kind):
    context.first = context.stage.agents("plan", "use", action, "shop", *placed(kind)).err
    used = context.stage.said
    if used.exit_code == 0:
        context.stage.told("plan", "execute")


@when('I use "{action}" on the project in "{kind}" without strategizing')
def use_in(context, action, kind):
    context.stage.told("plan", "use", action, "shop", "--no-strategize", *placed(kind))


@when("I run its task")
def run_task(context):
    run(context)


def placed(kind):
    return () if kind == UNSET else ("--execution-environment", kind)


@then('the command ran in "{kind}" because of "{level}"')
def command_ran(context, kind, level):
    ran_in(context, "execute_command", kind, level)


@then('the file tool ran in "{kind}" because of "{level}"')
def file_tool_ran(context, kind, level):
    ran_in(context, "write_file", kind, level)


def ran_in(context, tool, kind, level):
    calls = [e for e in context.stage.events("ToolCallRequested") if e["name"] == tool]
    assert [(call["kind"], call["level"]) for call in calls] == [(kind, level)], calls
    started = {
        event["handle"]["environment_id"]: event["handle"]["kind"]
        for event in context.stage.events("EnvironmentStarted")
    }
    assert started[calls[0]["environment_id"]] == kind
    context.call = calls[0]


@then('the reason is "{word}"')
def reason_is(context, word):
    assert word in context.call["reason"], context.call["reason"]


@then("the first line said that nothing is confined")
def said_unconfined(context):
    assert "not confined" in context.first.splitlines()[0], context.first


@then('the route of "{tool}" is "{kind}" because of "{level}"')
def route_is(context, tool, kind, level):
    routes = context.stage.told("plan", "route", "@last", tool).data["routes"]
    assert [(r["kind"], r["level"]) for r in routes] == [(kind, level)], routes


@then("the hint says how to link one")
def hint_links(context):
    assert "agents resource add" in context.stage.said.err, context.stage.said.err
    assert "link-resource" in context.stage.said.err, context.stage.said.err


@then("nothing ran anywhere")
def nothing_ran(context):
    plans = context.stage.told("plan", "list").data["plans"]
    assert plans == [], plans


@then('I was warned about "{key}"')
def warned(context, key):
    assert key in context.stage.said.err, context.stage.said.err


@then("it exits with {code:d} and says that no container is linked")
def exits_without_container(context, code):
    said = context.stage.said
    assert said.exit_code == code, said
    assert "no container resource is linked" in said.err, said.err
