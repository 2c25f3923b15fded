*** Settings ***
Documentation     What somebody types who has just met the command: demo, doctor, models, looking around.
Library           CommandLine.py
Test Setup        Open Repository
Test Teardown     Close Repository


*** Test Cases ***
The Demo Ends With Proof And The Words How To Apply It
    Say    demo
    Exit Should Be    0
    Output Should Hold    fails (1) → pass    agents plan diff    agents plan apply    agents plan unapply
    Output Should Hold    scripted by hand

The Demo Answers Programs Too
    ${state}=    Answer    state    demo
    Should Be Equal    ${state}    complete

The Doctor Names What Works And The Cure For What Does Not
    Say    doctor
    Exit Should Be    0
    Output Should Hold    git    process    ripgrep    disk    database    model
    Output Should Hold    provider ollama    provider openai    OPENAI_API_KEY
    ${findings}=    Answer    findings    doctor
    Should Not Be Empty    ${findings}

Providers Are Listed With The Variable Of Their Key
    Say    model    list
    Output Should Hold    ollama    openai    OPENAI_API_KEY    is not set

A Model That Cannot Be Asked Says What To Do
    Say With    OLLAMA_HOST    http://127.0.0.1:9    model    check
    Exit Should Be    4
    Errors Should Hold    hint
    ${model}=    Write Script
    Say    model    check    ${model}
    Exit Should Be    0
    Output Should Hold    works

A Shell Behind The Plan's Walls Sees The Result And Changes Nothing
    ${model}=    Write Script
    Say    run    leave a note    --model    ${model}
    Type    cat note.txt\n\necho more >> note.txt\nno-such-command\ncd /\npwd\n    plan    shell
    Exit Should Be    0
    Output Should Hold    a note    /
    Errors Should Hold    fresh copy    no-such-command
    Type    exit 3\nexit\n    plan    shell
    ${patch}=    Answer    patch    plan    diff
    Should Not Contain    ${patch}    more

A Shell Before The Work Shows The Base
    Keep Project And Action
    Say    plan    use    note    shop    --arg    text=a    --no-strategize    --in    process
    Type    ls\nexit\n    plan    shell
    Exit Should Be    0
    Output Should Hold    README    shop.txt

A Plan Is Watched And Cancelled From Another Terminal
    ${model}=    Write Slow Script
    Start    run    leave a note    --model    ${model}
    Wait Until It Waits For    execute_command
    Say    plan    status
    Output Should Hold    waiting    since
    Say    plan    cancel
    Exit Should Be    0
    Background Should Exit With    1
    Say    plan    watch
    Exit Should Be    0
    Say    plan    errors
    Exit Should Be    0

Parts Of A Change Set Can Be Looked At And Handed Over
    ${model}=    Write Script
    Say    run    leave a note    --model    ${model}
    Say    plan    diff    --stat
    Output Should Hold    note.txt    +1 -0
    Say    plan    diff    @last    README
    Output Should Be Empty
    Say    plan    apply    @last    note.txt
    Exit Should Be    0
    ${state}=    Git    status    --porcelain
    Should Be Equal    ${state}    ?? note.txt
    Say    plan    unapply
    Output Should Hold    taken back

A Patch File Is Written Where One Says
    ${model}=    Write Script
    Say    run    leave a note    --model    ${model}
    Say    plan    apply    --to    patch    --name    note.patch
    Exit Should Be    0
    Git    apply    --check    note.patch
    ${code}=    Error Code    plan    apply    --to    nowhere
    Should Be Equal    ${code}    unknown_name

Events Are Followed To The End
    ${model}=    Write Script
    Say    run    leave a note    --model    ${model}
    Say    plan    events    --follow    --format    json
    Exit Should Be    0
    Output Should Hold    "PlanCreated"    "ChangeSetCaptured"
    Say    plan    watch
    Exit Should Be    0

A Failed Plan Says Why In Full
    ${model}=    Write Short Script
    Say    run    leave a note    --model    ${model}
    Exit Should Be    1
    Say    plan    errors
    Output Should Hold    script    hint
    Say    plan    status
    Output Should Hold    errored
