"""The model card of a fine-tuned model: data, seeds, protocol, scores."""

from pathlib import Path
from typing import TYPE_CHECKING

from bert_from_scratch.data.tasks.recipes import TaskData
from bert_from_scratch.finetune.plan import FinetunePlan

if TYPE_CHECKING:
    from bert_from_scratch.finetune.outcome import Outcome

# Hugging Face 网站用这些名字归类任务
_PIPELINES = {
    "classify": "text-classification",
    "regress": "text-classification",
    "choose": "multiple-choice",
    "tag": "token-classification",
    "answer": "question-answering",
}


def model_card(plan: FinetunePlan, data: TaskData, outcome: "Outcome") -> str:
    """Writes the card as Markdown."""
    features = plan.options.get("features")
    kind = "a frozen BERT under a BiLSTM" if features else "a fine-tuned BERT"
    lines = [
        "---",
        # 冻结特征上的 BiLSTM 与词向量基线是自己的格式，transformers 读不了
        *(
            ["library_name: transformers"]
            if plan.model is not None and not features
            else []
        ),
        "tags: [bert]" if plan.model is not None else "tags: [words]",
        f"pipeline_tag: {_PIPELINES[plan.task]}",
        "---",
        f"# {plan.data.recipe or plan.task}: "
        + (kind if plan.model else "words, without BERT"),
        "",
        "Made with BERT from Scratch. Use it: "
        "`bert predict path/of/this/folder ...`",
        "",
        "## Scores on dev",
        "",
        *_score_table(outcome),
        "",
        "## Data",
        "",
        *(
            f"- {name}: `{Path(source).name}`"
            for name, source in data.sources.items()
        ),
        f"- {len(data.train):,} examples to train on, {len(data.dev):,} to "
        "judge by",
        *(f"- {note}" for note in data.notes),
        "",
        "## Protocol",
        "",
        *_protocol(plan, outcome),
    ]
    return "\n".join(lines) + "\n"


def _score_table(outcome: "Outcome") -> list[str]:
    num_seeds = sum(
        attempt.learning_rate == outcome.best.learning_rate
        for attempt in outcome.attempts
    )
    rows = [
        f"| score | mean, {num_seeds} seed(s) | sd | this model |",
        "|---|---|---|---|",
    ]
    for name, value in outcome.scores.items():
        mean, deviation = outcome.mean[name], outcome.deviation[name]
        rows.append(f"| {name} | {mean:.4f} | {deviation:.4f} | {value:.4f} |")
    for title, scores in outcome.others.items():
        listed = ", ".join(f"{n} {v:.4f}" for n, v in scores.items())
        rows.extend(("", f"On {title}, scored once at the end: {listed}."))
    return rows


def _trained_layers(plan: FinetunePlan) -> str:
    features = plan.options.get("features")
    if features:
        return f"the encoder is frozen; features {features} into a BiLSTM"
    return (
        f"frozen layers {plan.freeze_layers}, layer decay {plan.layer_decay:g}"
    )


def _protocol(plan: FinetunePlan, outcome: "Outcome") -> list[str]:
    rates = ", ".join(f"{rate:g}" for rate in plan.learning_rates)
    kept = (
        "the last epoch is kept"
        if plan.patience is None
        else f"the best epoch on dev is kept, patience {plan.patience}"
    )
    return [
        f"- encoder: `{Path(plan.model).name}`"
        if plan.model
        else f"- encoder: {plan.options.get('encoder')}",
        f"- seeds {', '.join(map(str, plan.seeds))}; learning rates {rates}; "
        f"this model: seed {outcome.best.seed}, {outcome.best.learning_rate:g}",
        f"- {plan.epochs} epochs, {plan.batch_size} examples a step; {kept}",
        f"- AdamW, weight decay {plan.weight_decay:g}, warm-up over "
        f"{plan.warmup_share:.0%} of the steps, then a line to 0; "
        f"{plan.precision}",
        *(
            [f"- attention dropout {plan.attention_dropout:g}"]
            if plan.attention_dropout is not None
            else []
        ),
        f"- {_trained_layers(plan)}, class weights "
        f"{plan.class_weights or 'equal'}",
        *(
            [
                "- the model is the best seed on dev: its score there is a "
                "bit too good; the mean is the honest one"
            ]
            if len(plan.seeds) > 1
            else []
        ),
    ]
