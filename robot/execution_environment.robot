*** Settings ***
Documentation     The settings and options that say where tools run.
Library           CommandLine.py
Library           Kinds.py
Test Setup        Open Repository    shop
Test Teardown     Run Keywords    Close Repository    AND    Unlink All


*** Test Cases ***
Unset Falls Through To Host And Is Shown So
    Keep Action    note
    Say    plan    use    note    shop    --arg    text=a    --no-strategize
    ${environment}=    Answer    environment    plan    status
    Should Be Equal    ${environment}    host

The Source's Words Name Our Kinds
    Keep Action    note
    Say    plan    use    note    shop    --arg    text=a    --no-strategize    --execution-environment    local
    ${environment}=    Answer    environment    plan    status
    Should Be Equal    ${environment}    host

An Unknown Kind Is Refused With The Ones There Are
    Keep Action    note
    Say    plan    use    note    shop    --arg    text=a    --execution-environment    hots
    Exit Should Be    2
    Errors Should Hold    hots    host    process    container
    Say    project    context    set    execution_environment    hots
    Exit Should Be    2
    Errors Should Hold    host    process    container
    Say    run    leave a note    --in    hots
    Exit Should Be    2

A Project's Setting Is Kept, Shown And Taken Away
    Say    project    context    set    execution_environment    container
    Exit Should Be    0
    ${value}=    Answer    context.execution_environment    project    context    show
    Should Be Equal    ${value}    container
    Say    project    context    set    shop    execution_environment    host
    ${value}=    Answer    context.execution_environment    project    context    show    shop
    Should Be Equal    ${value}    host
    Say    project    context    set    execution_environment    unset
    ${value}=    Answer    context.execution_environment    project    context    show
    Should Be Equal    ${value}    ${None}

A New Project Is Confined Where That Works
    ${path}=    Path Of Repository
    Say    project    delete    shop
    Say    project    create    other    --repo    ${path}
    Exit Should Be    0
    Say    project    context    show    other
    Output Should Hold    execution_environment    process

Plan Execute Can Say Where
    Keep Action    note
    Say    plan    use    note    shop    --arg    text=a
    Say    plan    execute    --execution-environment    process
    Exit Should Be    0
    ${environment}=    Answer    environment    plan    status
    Should Be Equal    ${environment}    process
    ${level}=    Answer    routes.0.level    plan    route    @last    write_file
    Should Be Equal    ${level}    plan
    ${code}=    Error Code    plan    execute    --execution-environment    hots
    Should Be Equal    ${code}    unknown_name

Plan Execute Cannot Be Sent Where Nothing Is
    Keep Action    note
    Say    plan    use    note    shop    --arg    text=a
    ${code}=    Error Code    plan    execute    --execution-environment    container
    Should Be Equal    ${code}    container_unavailable
    ${state}=    Answer    state    plan    status
    Should Be Equal    ${state}    complete
    ${phase}=    Answer    phase    plan    status
    Should Be Equal    ${phase}    strategize

AGENT_MODE Is The Chain's Last Level
    Keep Action    note
    Say With    AGENT_MODE    local    plan    use    note    shop    --arg    text=a    --no-strategize
    ${environment}=    Answer    environment    plan    status
    Should Be Equal    ${environment}    host
    Say With    AGENT_MODE    mock    plan    use    note    shop    --arg    text=a    --no-strategize
    ${environment}=    Answer    environment    plan    status
    Should Be Equal    ${environment}    mock
    Say With    AGENT_MODE    nowhere    plan    use    note    shop    --arg    text=a    --no-strategize
    Exit Should Be    2

The Route Of Every Tool Can Be Asked For
    ${model}=    Write Script
    Say    run    leave a note    --model    ${model}
    Say    plan    route
    Output Should Hold    read_file    execute_command    process    run-default

A Kind Says Whether It Starts Here And What It Shows
    Say    env    list
    Output Should Hold    host    process
    Say    env    check    process
    Exit Should Be    0
    Output Should Hold    /usr
    Say    env    check    nowhere
    Exit Should Be    2

Run Can Say Where And What It Means
    ${model}=    Write Script
    Say    run    leave a note    --model    ${model}    --in    host
    Exit Should Be    0
    Errors Should Hold    not confined
    Say    run    leave a note    --model    ${model}    --in    mock
    Exit Should Be    0
    Errors Should Hold    in mock: not confined

The Source's Three Commands, Word For Word
    Keep Action    note
    Enter    agents project context set execution_environment host
    Exit Should Be    0
    ${value}=    Answer    context.execution_environment    project    context    show
    Should Be Equal    ${value}    host
    Enter    agents plan use note shop --arg text=a --execution-environment process
    Exit Should Be    0
    Route Should Be    process    plan
    Enter    agents plan execute --execution-environment host
    Exit Should Be    0
    Route Should Be    host    plan
    ${kinds}=    Kinds Of Calls
    Should Be Equal    ${kinds}    ${{ ["host"] }}

The Source's Three Commands Name No Container Where None Is
    Keep Action    note
    Enter    agents project context set execution_environment container
    Exit Should Be    0
    Enter    agents plan use note shop --arg text=a --execution-environment container
    Exit Should Be    4
    Errors Should Hold    container    agents resource add    agents project link-resource
    Enter    agents plan use note shop --arg text=a --execution-environment host
    Exit Should Be    0
    Enter    agents plan execute --execution-environment container
    Exit Should Be    4
    Errors Should Hold    container    agents resource add    agents project link-resource

The Source's Three Commands Reach A Container
    [Tags]    docker
    Need    container
    Keep Action    note
    Link    container
    Enter    agents project context set execution_environment container
    Exit Should Be    0
    Enter    agents plan use note shop --arg text=a
    Route Should Be    container    project
    Enter    agents plan use note shop --arg text=a --execution-environment container
    Route Should Be    container    plan
    Enter    agents plan use note shop --arg text=a --execution-environment host
    Enter    agents plan execute --execution-environment container
    Exit Should Be    0
    Route Should Be    container    plan
    ${kinds}=    Kinds Of Calls
    Should Be Equal    ${kinds}    ${{ ["container"] }}

The Main Job On This Machine
    The Main Job Is Done In    host

The Main Job In A Process Sandbox
    [Tags]    bubblewrap
    The Main Job Is Done In    process

The Main Job In A Container
    [Tags]    docker
    The Main Job Is Done In    container

The Main Job In A Devcontainer
    [Tags]    docker
    The Main Job Is Done In    devcontainer

The Main Job In A Virtual Machine
    [Tags]    qemu
    The Main Job Is Done In    vm

The Main Job On A Host Over SSH
    [Tags]    sshd
    The Main Job Is Done In    ssh

The Main Job In A Mock
    The Main Job Is Done In    mock


*** Keywords ***
The Main Job Is Done In
    [Arguments]    ${kind}
    Need    ${kind}
    ${place}=    Link    ${kind}
    ${model}=    Write Working Script
    Say    run    leave a note    --model    ${model}    --in    ${place}
    Exit Should Be    0
    ${environment}=    Answer    environment    plan    status
    Should Be Equal    ${environment}    ${kind}
    Route Should Be    ${kind}    plan
    ${kinds}=    Kinds Of Calls
    Should Be Equal    ${kinds}    ${{ [$kind] }}
    Say    plan    apply
    Exit Should Be    0
    ${changed}=    Git    status    --porcelain
    Should Be Equal    ${changed}    ?? note.txt\n?? other.txt

Route Should Be
    [Arguments]    ${kind}    ${level}
    ${route}=    Answer    routes.0    plan    route    @last    execute_command
    Should Be Equal    ${route}[kind]    ${kind}
    Should Be Equal    ${route}[level]    ${level}
