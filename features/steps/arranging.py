"""What a scenario starts from: a repository, actions, invariants, models, plans."""

from behave import given, then, when
from stage import call, finish

NOTE = {
    "description": "leave a note",
    "steps": [{"write_file": {"path": "note.txt", "content": "a note\n"}}],
    "validate": ["test -f note.txt"],
}
TASK = "leave a note"
WRITING = call("write_file", path="note.txt", content="a note\n")


@given("a repository")
def repository(context):
    context.stage.commit({"shop.txt": "a shop\n", "README": "what is sold here\n"})


@given('a repository whose project is "{name}"')
def repository_with_project(context, name):
    repository(context)
    context.stage.keep_project(name)


@given('an action "{name}" that writes "note.txt" and proves that it is there')
def noting_action(context, name):
    context.stage.keep_action(name, NOTE)


@given('an action "{name}" with the invariant "{text}"')
def action_with_invariant(context, name, text):
    context.stage.keep_action(name, {**NOTE, "invariants": [{"text": text}]})


@given('the invariant "{text}" for everything')
def global_invariant(context, text):
    context.stage.prepare(("invariant", "add", text, "--global"))


@given('the invariant "{text}" for everything, checked by "{check}"')
def checked_invariant(context, text, check):
    context.stage.prepare(("invariant", "add", text, "--global", "--check", check))


@given('the invariant "{text}" for the project "{project}"')
def project_invariant(context, text, project):
    context.stage.prepare(("invariant", "add", text, "--project", project))


@given('the invariant "{text}" for that plan')
def plan_invariant(context, text):
    context.stage.told("invariant", "add", text, "--plan", "@last")


@given('a plan of "{action}" that is not strategized')
def unplanned(context, action):
    context.stage.told(*plan_use(action), "--no-strategize")


@given('a strategized plan of "{action}"')
def strategized(context, action):
    context.stage.told(*plan_use(action))


@given('an executed plan of "{action}"')
def executed(context, action):
    strategized(context, action)
    context.stage.told("plan", "execute")


@given('a plan of "{action}" that stands before {phase}')
def before_phase(context, action, phase):
    {"strategize": unplanned, "execute": strategized}[phase](context, action)


def plan_use(action):
    return ("plan", "use", action, "shop", "--execution-environment", "process")


@given('a model that plans with "write_file"')
def model_writing_while_planning(context):
    planning_model(context, WRITING)


@given('a model that plans with the command "{command}"')
def model_commanding_while_planning(context, command):
    planning_model(context, call("execute_command", command=command))


def planning_model(context, reply):
    done = finish("look, and leave it")
    context.model = context.stage.script(done, done, strategize=[reply, done])


@given('a model that writes "note.txt"')
def model_writing(context):
    context.model = context.stage.script(WRITING, finish("the note is there"))


@given("a model that changes nothing")
def model_finishing(context):
    # A first finish without any change is asked back once.
    done = finish("there is nothing to do")
    context.model = context.stage.script(done, done)


@given("a model whose script ends too early while planning")
def model_ending_planning(context):
    look = call("read_file", path="README")
    context.model = context.stage.script(finish("done"), strategize=[look])


@given("a model whose script ends too early while working")
def model_ending_working(context):
    plan = finish("write the note first")
    context.model = context.stage.script(WRITING, strategize=[plan])


@when("the script is mended")
def mended(context):
    context.root = context.stage.status()["strategy"]["decision_root_id"]
    plan, done = finish("write the note first"), finish("the note is there")
    context.stage.script(WRITING, done, strategize=[plan])


@given('I run its task in "{kind}"')
@when('I run its task in "{kind}"')
def run_task(context, kind):
    run(context, "--in", kind)


@when("I run its task and record the conversation")
def run_recorded(context):
    context.recording = context.stage.folder / "recording.jsonl"
    run(context, "--record", str(context.recording))


@when('I run its task with the proof "{proof}"')
def run_proven(context, proof):
    run(context, "--validate", proof, "--rounds", "0")


@when("I run its task with at most {steps:d} steps")
def run_limited(context, steps):
    run(context, "--max-steps", str(steps))


@when("I stream its task")
def run_streaming(context):
    run(context, "--stream")


def run(context, *words):
    context.stage.ask("run", TASK, "--model", context.model, *words)


@when('I say "{line}"')
def say(context, line):
    context.stage.ask(*line.split())


@when('I stream "{line}"')
def stream(context, line):
    context.stage.ask(*line.split(), "--stream")


@given('I wrote "{name}" myself')
def wrote(context, name):
    (context.stage.repository / name).write_text("mine\n", encoding="utf-8")


@given("I remember the checkout")
def remember_checkout(context):
    context.fingerprint = context.stage.fingerprint()


@given("I remember the events")
def remember_events(context):
    context.remembered = context.stage.events()


@then('"{name}" is still what I wrote')
def is_mine(context, name):
    assert (context.stage.repository / name).read_text(encoding="utf-8") == "mine\n"
