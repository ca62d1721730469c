"""`--recipe`: a name for options that go well together."""

from typing import Annotated, Any, TypeVar

import typer

from bert_from_scratch.errors import BertError

Value = TypeVar("Value")
# 写出的预算、模型与步子先于菜谱里的
REPLACED_BY = {
    "minutes": ("steps", "epochs"),
    "preset": ("config", "init"),
    "phases": ("max_length", "batch_tokens"),
}


def _use_recipe(context: typer.Context, name: str | None) -> str | None:
    """Makes a recipe's values the defaults of the options after it."""
    if name is None or context.resilient_parsing:
        return name
    from bert_from_scratch.train.recipes import RECIPES

    if name not in RECIPES:
        raise BertError(
            f"There is no recipe {name}.", hint=f"try {', '.join(RECIPES)}"
        )
    context.default_map = RECIPES[name]
    return name


RecipeOption = Annotated[
    str | None,
    typer.Option(
        help="Options that go well together: ten-minutes, a BERT-base in "
        "540 s on one H200.",
        # 先于别的选项处理：它们的默认值由它来定
        is_eager=True,
        callback=_use_recipe,
    ),
]


def is_typed(context: typer.Context, name: str) -> bool:
    """Returns whether the user typed an option."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def unless_replaced(
    context: typer.Context, name: str, value: Value | None
) -> Value | None:
    """Returns an option's value; None where something typed replaces it."""
    others: tuple[str, ...] = REPLACED_BY[name]
    if is_typed(context, name):
        return value
    return None if any(is_typed(context, one) for one in others) else value


def recipe_value(context: typer.Context, name: str, otherwise: Any) -> Any:
    """Returns what the recipe says of something that is no option here."""
    return (context.default_map or {}).get(name, otherwise)
