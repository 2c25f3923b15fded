"""Roles that come with the package: a prompt in Markdown and a policy in YAML each."""
