"""Files of a repository that servers run or obey: pipelines, hosting, bots."""

from patchyard.domain.protected_entry import ProtectedEntry, entry

PIPELINES: tuple[ProtectedEntry, ...] = (
    # continuous integration
    entry(
        "GitHub",
        "runs workflows and actions",
        "https://docs.github.com/actions/reference/workflows-and-actions",
        ".github/workflows/*",
        ".github/actions/*",
    ),
    entry(
        "Dependabot",
        "opens changes by it",
        "https://docs.github.com/code-security/dependabot",
        ".github/dependabot.y*ml",
        ".dependabot/*",
    ),
    entry(
        "GitLab",
        "runs pipelines, hooks of merge requests",
        "https://docs.gitlab.com/ci/yaml/",
        ".gitlab-ci.y*ml",
        ".gitlab/*",
    ),
    entry("Gitea", "runs workflows", "https://docs.gitea.com/usage/actions/overview", ".gitea/*"),
    entry(
        "Forgejo", "runs workflows", "https://forgejo.org/docs/latest/user/actions/", ".forgejo/*"
    ),
    entry(
        "CircleCI", "runs jobs", "https://circleci.com/docs/configuration-reference/", ".circleci/*"
    ),
    entry("Drone", "runs pipelines", "https://docs.drone.io/pipeline/configuration/", ".drone.*"),
    entry(
        "Woodpecker",
        "runs workflows",
        "https://woodpecker-ci.org/docs/usage/workflows",
        ".woodpecker.y*ml",
        ".woodpecker/*",
    ),
    entry("Travis CI", "runs jobs", "https://docs.travis-ci.com/user/tutorial/", ".travis.y*ml"),
    entry(
        "Buildkite",
        "runs pipelines and hooks",
        "https://buildkite.com/docs/agent/hooks",
        ".buildkite/*",
        "buildkite.y*ml",
    ),
    entry(
        "Cirrus CI",
        "runs tasks",
        "https://cirrus-ci.org/guide/writing-tasks/",
        ".cirrus.y*ml",
        ".cirrus.star",
    ),
    entry(
        "AppVeyor",
        "runs builds",
        "https://www.appveyor.com/docs/appveyor-yml/",
        "appveyor.y*ml",
        ".appveyor.y*ml",
    ),
    entry(
        "Azure Pipelines",
        "runs pipelines",
        "https://learn.microsoft.com/azure/devops/pipelines/yaml-schema/",
        "azure-pipelines*.y*ml",
        ".azure-pipelines/*",
        ".azuredevops/*",
    ),
    entry(
        "Bitbucket",
        "runs pipelines",
        "https://support.atlassian.com/bitbucket-cloud/docs/bitbucket-pipelines-configuration-reference/",
        "bitbucket-pipelines.y*ml",
    ),
    entry(
        "Jenkins",
        "runs pipelines",
        "https://www.jenkins.io/doc/book/pipeline/jenkinsfile/",
        "jenkinsfile*",
        ".jenkins/*",
    ),
    entry(
        "Semaphore",
        "runs pipelines",
        "https://docs.semaphoreci.com/reference/pipeline-yaml",
        ".semaphore/*",
    ),
    entry(
        "SourceHut",
        "runs build manifests",
        "https://man.sr.ht/builds.sr.ht/",
        ".build.y*ml",
        ".builds/*",
    ),
    entry(
        "Pipelines as Code", "runs Tekton pipelines", "https://pipelinesascode.com/", ".tekton/*"
    ),
    entry(
        "Google Cloud Build",
        "runs builds",
        "https://cloud.google.com/build/docs/build-config-file-schema",
        "cloudbuild.y*ml",
        "cloudbuild.json",
    ),
    entry(
        "AWS CodeBuild",
        "runs builds",
        "https://docs.aws.amazon.com/codebuild/latest/userguide/build-spec-ref.html",
        "buildspec*.y*ml",
    ),
    entry(
        "AWS CodeDeploy",
        "runs hooks",
        "https://docs.aws.amazon.com/codedeploy/latest/userguide/reference-appspec-file.html",
        "appspec.y*ml",
    ),
    entry(
        "Zuul",
        "runs jobs",
        "https://zuul-ci.org/docs/zuul/latest/project-config.html",
        "zuul.y*ml",
        ".zuul.y*ml",
        "zuul.d/*",
        ".zuul.d/*",
    ),
    entry(
        "TeamCity",
        "runs builds",
        "https://www.jetbrains.com/help/teamcity/kotlin-dsl.html",
        ".teamcity/*",
    ),
    entry("OneDev", "runs jobs", "https://docs.onedev.io/", ".onedev-buildspec.yml"),
    entry(
        "Codemagic",
        "runs workflows",
        "https://docs.codemagic.io/yaml-basic-configuration/yaml-getting-started/",
        "codemagic.y*ml",
    ),
    entry("Bitrise", "runs workflows", "https://devcenter.bitrise.io/", "bitrise.y*ml"),
    entry(
        "own scripts",
        "of a pipeline, by convention",
        "https://docs.gitlab.com/ci/yaml/includes/",
        ".ci/*",
    ),
    # what hosts and deploys
    entry(
        "Read the Docs",
        "runs build commands",
        "https://docs.readthedocs.com/platform/stable/config-file/v2.html",
        ".readthedocs.y*ml",
        "readthedocs.y*ml",
    ),
    entry(
        "Netlify",
        "runs build commands and plugins",
        "https://docs.netlify.com/configure-builds/file-based-configuration/",
        "netlify.toml",
    ),
    entry(
        "Vercel",
        "runs build commands",
        "https://vercel.com/docs/project-configuration",
        "vercel.json",
    ),
    entry(
        "AWS Amplify",
        "runs build commands",
        "https://docs.aws.amazon.com/amplify/latest/userguide/build-settings.html",
        "amplify.y*ml",
    ),
    entry(
        "Elastic Beanstalk",
        "runs commands and hooks",
        "https://docs.aws.amazon.com/elasticbeanstalk/latest/dg/ebextensions.html",
        ".ebextensions/*",
        ".platform/*",
    ),
    entry("Render", "runs build commands", "https://render.com/docs/blueprint-spec", "render.y*ml"),
    entry(
        "Railway",
        "runs build commands",
        "https://docs.railway.com/reference/config-as-code",
        "railway.toml",
        "railway.json",
    ),
    entry(
        "Fly.io",
        "runs release commands",
        "https://fly.io/docs/reference/configuration/",
        "fly.toml",
    ),
    entry(
        "Heroku",
        "runs release commands",
        "https://devcenter.heroku.com/articles/procfile",
        "procfile",
        "heroku.yml",
    ),
    entry(
        "Nixpacks",
        "runs build commands",
        "https://nixpacks.com/docs/configuration/file",
        "nixpacks.toml",
    ),
    entry(
        "ASF",
        "changes a repository's settings",
        "https://github.com/apache/infrastructure-asfyaml",
        ".asf.y*ml",
    ),
    # bots that change or merge
    entry(
        "Renovate",
        "opens and merges changes",
        "https://docs.renovatebot.com/configuration-options/",
        "renovate.json*",
        ".renovaterc*",
        ".github/renovate.json*",
        ".gitlab/renovate.json*",
    ),
    entry(
        "Mergify",
        "merges changes",
        "https://docs.mergify.com/configuration/file-format/",
        ".mergify.y*ml",
        ".mergify/*",
        ".github/mergify.y*ml",
    ),
    entry(
        "Kodiak",
        "merges changes",
        "https://kodiakhq.com/docs/config-reference",
        ".kodiak.toml",
        ".github/.kodiak.toml",
    ),
    entry(
        "Probot Settings",
        "changes a repository's settings",
        "https://github.com/repository-settings/app",
        ".github/settings.y*ml",
    ),
)

__all__ = ["PIPELINES"]
