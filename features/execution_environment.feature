Feature: Where a plan's tools run
  Each call goes where the chain says: tool, then plan, then project, then resource, then the
  default, which is `host`. The first level that is set wins, and there is no silent fall.

  Background:
    Given a repository whose project is "shop"

  Scenario: Default host execution
    Given an action "work" that runs a command
    When I use "work" on the project and execute it
    Then the command ran in "host" because of "default"
    And the first line said that nothing is confined

  Scenario: Project override
    Given an action "work" that runs a command
    And the project's environment is "process"
    When I use "work" on the project and execute it
    Then the command ran in "process" because of "project"

  Scenario: Plan override
    Given an action "work" that runs a command
    And the project's environment is "host"
    When I use "work" on the project in "process" and execute it
    Then the command ran in "process" because of "plan"

  Scenario: Tool override
    Given an action "work" that runs a command, with its tool "execute_command" in "host"
    When I use "work" on the project in "process" and execute it
    Then the command ran in "host" because of "tool"
    And the file tool ran in "process" because of "plan"

  Scenario Outline: Full priority chain
    Given a resource of the project whose environment is <resource>
    And the project's environment is <project>
    And an action "work" that runs a command, with its tool "execute_command" in <tool>
    When I use "work" on the project in <plan> without strategizing
    Then the route of "execute_command" is <kind> because of <level>

    Examples:
      | tool      | plan      | project   | resource  | kind      | level      |
      | "process" | "host"    | "host"    | "host"    | "process" | "tool"     |
      | "host"    | "process" | "process" | "process" | "host"    | "tool"     |
      | "unset"   | "process" | "host"    | "host"    | "process" | "plan"     |
      | "unset"   | "host"    | "process" | "process" | "host"    | "plan"     |
      | "unset"   | "unset"   | "process" | "host"    | "process" | "project"  |
      | "unset"   | "unset"   | "host"    | "process" | "host"    | "project"  |
      | "unset"   | "unset"   | "unset"   | "process" | "process" | "resource" |
      | "unset"   | "unset"   | "unset"   | "unset"   | "host"    | "default"  |

  Scenario Outline: Missing-container error
    Given an action "work" that runs a command, with its tool "execute_command" in <tool>
    And the project's environment is <project>
    When I use "work" on the project in <plan> and execute it
    Then it exits with 4 and says that no container is linked
    And the hint says how to link one
    And nothing ran anywhere

    Examples:
      | level   | tool        | plan        | project     |
      | tool    | "container" | "unset"     | "unset"     |
      | plan    | "unset"     | "container" | "unset"     |
      | project | "unset"     | "unset"     | "container" |

  Scenario: A task in one line is confined when nothing is set
    Given a model that writes "note.txt"
    When I run its task
    Then the file tool ran in "process" because of "plan"
    And the reason is "run-default"

  Scenario: What a repository's own files say cannot take the walls away
    Given the repository's own configuration says that work runs in "host"
    And a model that writes "note.txt"
    When I run its task
    Then the file tool ran in "process" because of "plan"
    And I was warned about "execution_environment"
