"""`bert demo`: a first look, on text that needs no download."""

import math
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from bert_from_scratch.cli.console import report_stages, say, stderr

EXAMPLE = "Example: bert demo --out bert-demo"
SENTENCES = ("The parser returns a list of tokens.", "我喜欢学习人工智能。")


def demo(
    out: Annotated[Path, typer.Option(help="Directory to write.")] = Path(
        "bert-demo"
    ),
) -> None:
    """Train a tokenizer on Python's own manual; look at a tiny BERT."""
    from bert_from_scratch.corpus.builtin import (
        builtin_chinese_documents,
        builtin_documents,
    )
    from bert_from_scratch.tokenizer import WordPieceTokenizer

    documents = builtin_documents() + builtin_chinese_documents()
    say(f"1. Learning a vocabulary from {len(documents)} built-in documents.")
    lines = [line for text in documents for line in text.split("\n")]
    with report_stages() as report:
        tokenizer = WordPieceTokenizer.train(lines, 4000, progress=report)
    tokenizer.save(out)
    say(f"   {len(tokenizer):,} WordPieces, written to {out}.")
    say("2. Text to WordPieces to ids, and back.")
    for sentence in SENTENCES:
        encoding = tokenizer.encode(sentence)
        say(f"   {sentence}")
        say(f"   {' '.join(encoding.tokens)}")
        say(f"   {' '.join(map(str, encoding.input_ids))}")
        say(f"   {tokenizer.decode(encoding.input_ids)}")
    say("3. The shapes on the way through an untrained BERT-tiny.")
    _show_shapes(tokenizer.encode(SENTENCES[0]).input_ids, len(tokenizer), out)
    say(f'Next: bert tokenizer encode {out} "your own text"')


def _show_shapes(input_ids: list[int], vocab_size: int, out: Path) -> None:
    import torch

    from bert_from_scratch.config import BertConfig
    from bert_from_scratch.objectives.pretraining import BertForPreTraining

    torch.manual_seed(0)
    config = BertConfig.preset("tiny", vocab_size=vocab_size)
    model = BertForPreTraining(config).eval()
    ids = torch.tensor([input_ids])
    everywhere = torch.arange(ids.numel())
    with torch.inference_mode():
        embedded, layout = model.bert.embed(ids)
        states = model.bert.encoder.hidden_states(embedded, layout)
        pooled = model.bert(ids).pooled
        logits = model.mlm_logits(states[-1], everywhere)
    table = Table("tensor", "shape", "what it is")
    table.add_row("input_ids", str(list(ids.shape)), "WordPiece ids")
    table.add_row("embedding", str(list(embedded.shape)), "three summed")
    for number, state in enumerate(states[1:], start=1):
        table.add_row(f"block {number}", str(list(state.shape)), "hidden state")
    table.add_row("pooled", str(list(pooled.shape)), "sentence vector")
    table.add_row("MLM logits", str(list(logits.shape)), "a score a WordPiece")
    stderr.print(table)
    model.save_pretrained(out)
    num_parameters = sum(p.numel() for p in model.parameters())
    say(
        f"   {num_parameters:,} parameters; before training every guess "
        f"costs about ln {vocab_size} = {math.log(vocab_size):.2f} nats."
    )
