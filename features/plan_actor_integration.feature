Feature: Plans carried out by actors
  Strategize thinks and only reads. Execute works in a sandbox. Nothing reaches the checkout
  before apply, and what happened can be asked for afterwards.

  Background:
    Given a repository whose project is "shop"
    And an action "note" that writes "note.txt" and proves that it is there

  # strategize

  Scenario: Strategize records its decisions below one root
    Given a plan of "note" that is not strategized
    When I say "plan strategize"
    Then the plan is at strategize/complete
    And the only root of the decision tree is a "prompt_definition"
    And there is at least one "strategy_choice" below it

  Scenario: Strategize leaves the checkout bit-identical and makes no change set
    Given a plan of "note" that is not strategized
    And I remember the checkout
    When I say "plan strategize"
    Then the checkout is bit-identical
    And the plan has no change set

  Scenario: A writing tool is refused while planning
    Given a model that plans with "write_file"
    When I run its task in "process"
    Then the planned call ended with "READ_ONLY"
    And the change set is empty

  Scenario: A shell command cannot write while planning
    Given a model that plans with the command "echo planned > planned.txt"
    When I run its task in "process"
    Then the planned call ended with "COMMAND_FAILED"
    And the change set is empty

  Scenario Outline: Commands are refused while planning where no wall holds them
    Given a model that plans with the command "echo planned > planned.txt"
    When I run its task in "<kind>"
    Then the planned call ended with "READ_ONLY"
    And its message names the cure "--in process"

    Examples:
      | kind |
      | host |
      | mock |

  Scenario: Strategizing twice is harmless
    Given a strategized plan of "note"
    And I remember the events
    When I say "plan strategize"
    Then it exits with 0
    And no event was added

  Scenario: Under the manual profile nothing goes on by itself
    When I say "plan use note shop --automation-profile manual"
    Then it exits with 0
    And the plan is at strategize/queued

  # invariants

  Scenario: Invariants of every scope bind the plan, one decision each
    Given the invariant "keep it short" for everything
    And the invariant "keep the shop open" for the project "shop"
    And an action "careful" with the invariant "write one file"
    And a plan of "careful" that is not strategized
    And the invariant "write it today" for that plan
    When I say "plan strategize"
    Then the "invariant_enforced" decisions are
      | choice             |
      | keep it short      |
      | keep the shop open |
      | write one file     |
      | write it today     |

  Scenario: Invariants are part of what the model is asked while planning
    Given the invariant "keep it short" for everything
    And a model that writes "note.txt"
    When I run its task and record the conversation
    Then the first recorded request holds "keep it short"

  Scenario: A broken invariant blocks execute
    Given the invariant "a licence is there" for everything, checked by "test -f LICENSE"
    And a strategized plan of "note"
    When I say "plan execute"
    Then it exits with 3 and the error "reconciliation_blocked"
    And the plan is at execute/constrained
    And the verdicts of "a licence is there" are "before: broken"

  Scenario: An invariant is checked before and after the work
    Given the invariant "the shop is there" for everything, checked by "test -f shop.txt"
    And a strategized plan of "note"
    When I say "plan execute"
    Then it exits with 0
    And the verdicts of "the shop is there" are "before: holds, after: holds"

  # execute

  Scenario: Execute is refused before strategize is complete
    Given a plan of "note" that is not strategized
    When I say "plan execute"
    Then it exits with 3 and the error "guard"
    And the hint is to say "plan strategize"
    And the plan is at strategize/queued

  Scenario: Execute works in a sandbox and leaves the checkout bit-identical
    Given a strategized plan of "note"
    And I remember the checkout
    When I say "plan execute"
    Then the plan is at execute/complete
    And the checkout is bit-identical

  Scenario: Each change names the tool call that made it
    Given a strategized plan of "note"
    When I say "plan execute"
    Then "note.txt" is "added" by a tool call of the journal

  Scenario: The plan keeps its change set, its calls and its sandboxes
    Given a strategized plan of "note"
    When I say "plan execute"
    Then another process is told the same change set
    And the count of tool calls is that of the journal
    And the sandboxes are those that were started in "process"

  Scenario: Executing twice is harmless
    Given an executed plan of "note"
    And I remember the events
    When I say "plan execute"
    Then it exits with 0
    And no event was added

  Scenario: Work that changes nothing is done too
    Given a model that changes nothing
    When I run its task in "process"
    Then it exits with 0
    And the change set is empty

  # what can go wrong

  Scenario: A failed strategize says why
    Given a model whose script ends too early while planning
    When I run its task in "process"
    Then it exits with 1 and the error "model_failed"
    And the plan is at strategize/errored
    And the plan's error message and details say so

  Scenario: A failed execute says why and keeps the strategy
    Given a model whose script ends too early while working
    When I run its task in "process"
    Then it exits with 1 and the error "model_failed"
    And the plan is at execute/errored
    And the plan's error message and details say so
    And the strategy is still there

  Scenario: A failed execute is tried again with the same strategy
    Given a model whose script ends too early while working
    And I run its task in "process"
    When the script is mended
    And I say "plan execute"
    Then the plan is at execute/complete
    And the decision tree is the one of the first try
    And the error message is gone

  Scenario: A proof that fails constrains the plan
    Given a model that writes "note.txt"
    When I run its task with the proof "test -f other.txt"
    Then it exits with 1 and the error "validation_failed"
    And the plan is at execute/constrained

  Scenario: A limit stops the plan and keeps what was done
    Given a model that writes "note.txt"
    When I run its task with at most 2 steps
    Then it exits with 5 and the error "limit"
    And the plan is at execute/constrained
    And the call of "write_file" is in the journal

  # streaming

  Scenario Outline: Streaming shows a phase from start to end
    Given a plan of "note" that stands before <phase>
    When I stream "plan <phase>"
    Then the stream shows <phase> as "processing, complete"
    And the last line is the whole answer

    Examples:
      | phase      |
      | strategize |
      | execute    |

  Scenario: Streaming shows the failure of a phase
    Given a model whose script ends too early while working
    When I stream its task
    Then the stream shows execute as "queued, processing, errored"
    And the last line is the whole answer

  # apply

  Scenario: Apply hands the change over and unapply takes it back
    Given an executed plan of "note"
    When I say "plan apply"
    Then the checkout holds "note.txt"
    When I say "plan unapply"
    Then the checkout does not hold "note.txt"
    And git sees no change in the checkout

  Scenario: Streaming shows apply from start to end
    Given an executed plan of "note"
    When I stream "plan apply"
    Then the stream shows apply as "queued, processing, applied"
    And the last line is the whole answer

  Scenario: Applying twice is harmless
    Given an executed plan of "note"
    When I say "plan apply"
    And I say "plan apply"
    Then it exits with 0
    And the checkout holds "note.txt"

  Scenario: Apply is refused before execute is complete
    Given a strategized plan of "note"
    When I say "plan apply"
    Then it exits with 3 and the error "guard"
    And the checkout does not hold "note.txt"

  Scenario: Apply does not overwrite newer work
    Given an executed plan of "note"
    And I wrote "note.txt" myself
    When I say "plan apply"
    Then it exits with 3 and the error "conflict"
    And "note.txt" is still what I wrote
