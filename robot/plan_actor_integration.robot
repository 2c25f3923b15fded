*** Settings ***
Documentation     A plan from action to applied change, by the commands one would type.
Library           CommandLine.py
Test Setup        Open Repository    shop
Test Teardown     Close Repository


*** Test Cases ***
A Plan Goes From Action To Branch By Separate Commands
    Keep Action    note
    Say    plan    use    note    shop    --arg    text=a note    --execution-environment    process
    Exit Should Be    0
    Output Should Be A Plan Id
    Say    plan    execute
    Exit Should Be    0
    Output Should Hold    execute/complete    note.txt    proof
    Patch Should Fit A Fresh Clone
    Say    plan    apply    --to    branch
    Exit Should Be    0
    Output Should Hold    plan unapply
    ${branches}=    Git    branch    --list
    Should Contain    ${branches}    patchyard

A Task In One Line Ends In The Working Tree
    ${model}=    Write Script
    Say    run    leave a note    --model    ${model}    --validate    test -f note.txt    --apply    worktree
    Exit Should Be    0
    Output Should Hold    proof    reach    cost
    ${state}=    Git    status    --porcelain
    Should Be Equal    ${state}    ?? note.txt

A Finished Plan Answers Every Question About It
    ${model}=    Write Script
    Say    run    leave a note    --model    ${model}
    Say    plan    tree
    Output Should Hold    prompt_definition    leave a note
    Say    plan    explain
    Output Should Hold    question    choice    rationale
    Say    plan    events
    Output Should Hold    PlanCreated    ChangeSetCaptured
    ${call}=    Answer    changeset.files.0.call_id    plan    status
    Say    plan    logs    @last    ${call}
    Output Should Hold    note.txt
    Say    plan    watch
    Exit Should Be    0
    Say    plan    list
    Output Should Hold    leave a note
    Say    plan    errors
    Exit Should Be    0

A Plan Is Found By Its Id And By A Beginning Of It
    ${model}=    Write Script
    Say    run    leave a note    --model    ${model}
    ${id}=    Answer    plan_id    plan    status
    ${again}=    Answer    plan_id    plan    status    ${id}
    ${short}=    Answer    plan_id    plan    status    ${id}[:20]
    Should Be Equal    ${id}    ${again}
    Should Be Equal    ${id}    ${short}

An Action Asks For Its Arguments
    Keep Action    note
    ${code}=    Error Code    plan    use    note    shop
    Should Be Equal    ${code}    usage
    ${plans}=    Names Of Plans
    Should Be Empty    ${plans}

An Action Or A Project That Is Not There Is Named
    Keep Action    note
    ${code}=    Error Code    plan    use    not    shop    --arg    text=a
    Should Be Equal    ${code}    unknown_name
    ${code}=    Error Code    plan    use    note    ship    --arg    text=a
    Should Be Equal    ${code}    unknown_name
    Say    plan    use    note    ship    --arg    text=a
    Errors Should Hold    shop

An Interrupted Task Is Carried On Where It Was
    ${slow}=    Write Slow Script
    Interrupt When It Runs    run    leave a note    --model    ${slow}
    ${state}=    Answer    state    plan    status
    Should Be Equal    ${state}    cancelled
    Say    plan    resume
    Exit Should Be    0
    Output Should Hold    execute/complete
    ${calls}=    Answer    execution.tool_calls    plan    status
    Should Be Equal As Integers    ${calls}    2

What Is For People Is Not In The Way Of Programs
    ${model}=    Write Script
    Say    run    leave a note    --model    ${model}    --format    json
    Output Should Be One Object
    Say    run    leave a note    --model    ${model}
    Errors Should Hold    base    strategize    execute
