Feature: A person steers plans
  A plan waits, goes on, goes back and is told otherwise by a person's word, and every word is kept.

  Background:
    Given a repository

  # approval

  Scenario: Without a terminal a supervised plan stops until somebody approves
    Given a model that writes "note.txt" by a command
    When I run its task under the profile "supervised"
    Then it exits with 3 and the error "approval_needed"
    And the hint is to say "agents plan approve"
    And the plan is at strategize/complete
    When I say "plan approve"
    And I say "plan resume"
    Then it exits with 3 and the error "approval_needed"
    And the plan waits for the approval of "execute_command"
    When I say "plan approve"
    And I say "plan resume"
    Then it exits with 0
    And the plan is at execute/complete

  Scenario: A rejected call is told to the actor
    Given a model that writes "note.txt" by a command
    When I run its task under the profile "supervised"
    And I say "plan approve"
    And I say "plan resume"
    And I say "plan reject @last not-by-a-command"
    And I say "plan resume"
    Then it exits with 0
    And the call of "execute_command" ended with "REJECTED"
    And the change set is empty

  # pause

  Scenario: A paused plan is nobody's until it is resumed
    Given a strategized task of a model that writes "note.txt"
    When I say "plan pause"
    Then it exits with 0
    And the plan waits for "it is paused"
    When I say "plan resume --dry-run"
    Then it would "end the pause"
    And no event is newer than "Paused"
    When I say "plan resume"
    Then it exits with 0
    And the plan is at execute/complete

  # guidance

  Scenario: Guidance is told with the next turn, once
    Given a strategized task of a model that writes "note.txt"
    When I say "plan prompt @last mind-the-gap"
    And I say "plan resume"
    Then it exits with 0
    And "mind-the-gap" was told in one turn

  Scenario: A plan whose work is done takes no guidance but a correction
    Given an executed task of a model that writes "note.txt", then "more.txt"
    When I say "plan prompt @last more"
    Then it exits with 3 and the error "guard"
    And the hint is to say "plan correct"
    When I say "plan correct @last --mode append --guidance more"
    And I say "plan resume"
    Then it exits with 0
    And the change set holds "more.txt"

  # going back

  Scenario: A reverted plan plans anew and begins on the base
    Given an executed task of a model that writes "note.txt"
    When I say "plan revert @last --reason another-way"
    Then it exits with 0
    And the plan is at strategize/queued
    And the next strategy is told "another-way"
    When I say "plan resume"
    Then it exits with 0
    And the plan is at execute/complete

  Scenario: A replay needs no model
    Given an executed task of a model that writes "note.txt"
    And the model is gone
    When I say "plan replay"
    Then it exits with 0
