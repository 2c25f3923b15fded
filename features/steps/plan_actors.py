"""What is seen of plans that actors carry out."""

from behave import then


@then("it exits with {code:d}")
def exits(context, code):
    assert context.stage.said.exit_code == code, context.stage.said


@then('it exits with {code:d} and the error "{name}"')
def exits_with_error(context, code, name):
    exits(context, code)
    assert context.stage.said.body["error"]["code"] == name, context.stage.said.body["error"]


@then('the hint is to say "{words}"')
def hinted(context, words):
    assert words in context.stage.said.body["error"]["hint"], context.stage.said.body["error"]


@then("the plan is at {phase}/{state}")
def stands(context, phase, state):
    plan = context.stage.status()
    assert (plan["phase"], plan["state"]) == (phase, state), (plan["phase"], plan["state"])


def decisions(context):
    return context.stage.told("plan", "tree").data["decisions"]


@then('the only root of the decision tree is a "{kind}"')
def root_is(context, kind):
    roots = [decision for decision in decisions(context) if decision["parent_id"] is None]
    assert [root["kind"] for root in roots] == [kind], roots
    assert context.stage.status()["strategy"]["decision_root_id"] == roots[0]["decision_id"]


@then('there is at least one "{kind}" below it')
def is_below(context, kind):
    root = context.stage.status()["strategy"]["decision_root_id"]
    below = [d for d in decisions(context) if d["parent_id"] == root]
    assert kind in {decision["kind"] for decision in below}, below


@then('the "{kind}" decisions are')
def decisions_are(context, kind):
    chosen = [d["choice"] for d in decisions(context) if d["kind"] == kind]
    assert sorted(chosen) == sorted(row["choice"] for row in context.table), chosen


@then("the checkout is bit-identical")
def bit_identical(context):
    assert context.stage.said.exit_code == 0, context.stage.said
    assert context.stage.fingerprint() == context.fingerprint


@then("the plan has no change set")
def no_changeset(context):
    plan = context.stage.status()
    assert plan["changeset_id"] is None, plan["changeset_id"]
    assert plan["changed"] is False


@then("the change set is empty")
def empty_changeset(context):
    plan = context.stage.status()
    assert plan["changeset"], plan["error_message"]
    assert plan["changeset"]["files"] == []
    assert plan["changed"] is False


def settled(context):
    """Each tool call's name and what it ended with, in order."""
    asked = {e["call_id"]: e["name"] for e in context.stage.events("ToolCallRequested")}
    ends = context.stage.events("ToolCallSettled")
    return [(asked[end["call_id"]], end) for end in ends]


@then('the planned call ended with "{code}"')
def planned_call(context, code):
    ends = [end for _name, end in settled(context)]
    assert [end.get("error") for end in ends] == [code], ends
    context.ended = ends[0]


@then('its message names the cure "{cure}"')
def message_names(context, cure):
    assert cure in context.ended["message"], context.ended["message"]


@then('the call of "{name}" is in the journal')
def call_is_kept(context, name):
    assert name in [called for called, _end in settled(context)]


@then("no event was added")
def no_event(context):
    assert context.stage.events() == context.remembered


@then('the first recorded request holds "{text}"')
def recorded_holds(context, text):
    lines = context.recording.read_text(encoding="utf-8").splitlines()
    request = next(line for line in lines if "strategize" in line)
    assert text in request, request


@then('the verdicts of "{text}" are "{verdicts}"')
def verdicts_are(context, text, verdicts):
    seen = [
        f"{verdict['when']}: {'holds' if verdict['passed'] else 'broken'}"
        for verdict in context.stage.status()["strategy"]["invariants"]
        if verdict["text"] == text
    ]
    assert ", ".join(seen) == verdicts, seen


@then('"{path}" is "{status}" by a tool call of the journal')
def change_names_call(context, path, status):
    changes = context.stage.status()["changeset"]["files"]
    assert [(change["path"], change["status"]) for change in changes] == [(path, status)]
    calls = {event["call_id"] for event in context.stage.events("ToolCallRequested")}
    assert changes[0]["call_id"] in calls


@then("another process is told the same change set")
def same_changeset(context):
    said = context.stage.said.data
    assert said["changeset_id"], said
    assert context.stage.status()["changeset_id"] == said["changeset_id"]
    assert said["changeset"]["id"] == said["changeset_id"]


@then("the count of tool calls is that of the journal")
def counted_calls(context):
    calls = context.stage.events("ToolCallRequested")
    assert len(calls) > 0
    assert context.stage.status()["execution"]["tool_calls"] == len(calls)


@then('the sandboxes are those that were started in "{kind}"')
def sandboxes(context, kind):
    started = [
        f"{event['handle']['kind']}:{event['handle']['environment_id']}"
        for event in context.stage.events("EnvironmentStarted")
    ]
    assert started, "nothing was started"
    assert context.stage.status()["execution"]["sandbox_refs"] == started
    assert {ref.partition(":")[0] for ref in started} == {kind}


@then("the plan's error message and details say so")
def failure_is_kept(context):
    error = context.stage.said.body["error"]
    plan = context.stage.status()
    assert plan["error_message"] == error["message"]
    assert plan["error_details"]["code"] == error["code"], plan["error_details"]


@then("the strategy is still there")
def strategy_is_kept(context):
    strategy = context.stage.status()["strategy"]
    assert strategy["summary"] == "write the note first", strategy
    assert strategy["decision_root_id"]


@then("the decision tree is the one of the first try")
def same_tree(context):
    assert context.stage.status()["strategy"]["decision_root_id"] == context.root


@then("the error message is gone")
def no_error(context):
    plan = context.stage.status()
    assert plan["error_message"] is None, plan["error_message"]


@then('the stream shows {phase} as "{states}"')
def streamed(context, phase, states):
    moves = [event for event in context.stage.said.streamed if event["event"] == "Moved"]
    seen = [move["state"] for move in moves if move["phase"] == phase]
    wanted = states.split(", ")
    assert seen[-len(wanted) :] == wanted, seen


@then("the last line is the whole answer")
def last_line(context):
    said = context.stage.said
    assert said.body["exit_code"] == said.exit_code
    assert said.data["plan_id"] == context.stage.status()["plan_id"]


@then('the checkout holds "{name}"')
def holds(context, name):
    assert context.stage.said.exit_code == 0, context.stage.said
    assert (context.stage.repository / name).read_text(encoding="utf-8") == "a note\n"


@then('the checkout does not hold "{name}"')
def lacks(context, name):
    assert not (context.stage.repository / name).exists()


@then("git sees no change in the checkout")
def git_is_clean(context):
    assert context.stage.git("status", "--porcelain") == ""
