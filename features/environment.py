"""Behave's hooks: each scenario has a stage of its own."""

from stage import Stage


def before_scenario(context, scenario):
    context.stage = Stage()


def after_scenario(context, scenario):
    context.stage.close()
