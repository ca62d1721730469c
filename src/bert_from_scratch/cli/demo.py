"""`bert demo`: the whole road in about two minutes, without a download."""

import random
import shutil
from pathlib import Path
from typing import Annotated

import typer

from bert_from_scratch import atomic
from bert_from_scratch.cli.console import report_stages, say
from bert_from_scratch.cli.training_progress import show_training
from bert_from_scratch.errors import BertError

EXAMPLE = "Example: bert demo --out bert-demo"
QUESTIONS = (
    "the man eats the [MASK]",
    "the man reads the [MASK]",
    "the man [MASK] the book",
)
VOCAB_SIZE = 1000
COPIES = 30
NUM_PROSE = 10
PROSE_CHARACTERS = 1500


def demo(
    out: Annotated[Path, typer.Option(help="Directory to write.")] = Path(
        "bert-demo"
    ),
    minutes: Annotated[
        float, typer.Option(help="Time for the pre-training.")
    ] = 1.5,
) -> None:
    """Go the whole road: text, vocabulary, shards, pre-training, guesses."""
    if minutes <= 0:
        raise BertError(f"--minutes must be positive, got {minutes}.")
    _make_room(out)
    corpus_dir, tokenizer_dir = out / "corpus", out / "tokenizer"
    _write_corpus(corpus_dir)
    _learn_vocabulary(corpus_dir, tokenizer_dir)
    _prepare(corpus_dir, tokenizer_dir, out / "data")
    _pretrain(out / "data", out / "run", minutes)
    _fill_masks(out / "run")
    say(f'Next: bert fill-mask {out / "run"} "the cat [MASK] the milk"')


def _make_room(out: Path) -> None:
    """Removes an earlier demo, and nothing else."""
    atomic.check_directory(out)
    marker = out / ".bert-demo"
    if out.exists() and any(out.iterdir()) and not marker.exists():
        raise BertError(
            f"{out} exists and is not an earlier demo.",
            hint="choose another --out",
        )
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    marker.touch()


def _write_corpus(corpus_dir: Path) -> None:
    from bert_from_scratch.corpus.builtin import (
        builtin_chinese_documents,
        builtin_documents,
        simple_sentences,
    )

    corpus_dir.mkdir()
    sentences = simple_sentences()
    shuffler = random.Random(0)  # noqa: S311
    for number in range(COPIES):
        # 每份打乱次序：句子要反复见到，邻居却不该背下来；一篇只讲一个主角，
        # 下一句是不是真的下一句，才有迹可循
        shuffler.shuffle(sentences)
        stories: dict[str, str] = {}
        for line in sentences:
            hero = line.split()[1]
            stories[hero] = stories.get(hero, "") + f"{line} .\n"
        path = corpus_dir / f"simple-{number:02d}.txt"
        path.write_text("\n".join(stories.values()), encoding="utf-8")
    # 两分钟只够学会短句：长文只取开头，够看清各步即可
    prose = [text[:PROSE_CHARACTERS] for text in builtin_documents()]
    documents = prose[:NUM_PROSE] + builtin_chinese_documents()
    for number, text in enumerate(documents):
        path = corpus_dir / f"prose-{number:02d}.txt"
        path.write_text(text + "\n", encoding="utf-8")
    say(
        f"1. Wrote {COPIES} files of {len(sentences)} simple sentences, one "
        f"hero a document, and {len(documents)} files of prose to {corpus_dir}."
    )


def _learn_vocabulary(corpus_dir: Path, tokenizer_dir: Path) -> None:
    from bert_from_scratch.tokenizer import WordPieceTokenizer

    with report_stages() as report:
        tokenizer = WordPieceTokenizer.train(
            [corpus_dir], VOCAB_SIZE, progress=report
        )
    tokenizer.save(tokenizer_dir)
    sample = "我喜欢 tokenization."
    tokens = tokenizer.encode(sample, add_special_tokens=False).tokens
    say(f"2. Learned {len(tokenizer):,} WordPieces: {sample} -> {tokens}")


def _prepare(corpus_dir: Path, tokenizer_dir: Path, data_dir: Path) -> None:
    from bert_from_scratch.corpus.files import find_files
    from bert_from_scratch.data.prepare import prepare
    from bert_from_scratch.data.report import make_report, write_report
    from bert_from_scratch.data.shards import TokenShards

    with report_stages() as progress:
        counts = prepare(
            find_files([corpus_dir]),
            tokenizer_dir,
            data_dir,
            progress=progress,
        )
    found = make_report(TokenShards.open(data_dir), counts)
    write_report(found, data_dir)
    say(
        f"3. Prepared {found.num_documents} documents, "
        f"{found.num_sentences:,} sentences, {found.num_tokens:,} tokens; "
        f"see {data_dir / 'report.md'}."
    )


def _pretrain(data_dir: Path, run_dir: Path, minutes: float) -> None:
    from bert_from_scratch.train import pretrain
    from bert_from_scratch.train.defaults import make_plan
    from bert_from_scratch.train.recorder import Progress

    plan = make_plan(
        data_dir,
        preset="tiny",
        minutes=minutes,
        batch_tokens=512,
        max_length=32,
        held_out_share=0.05,
        device="cpu",
    )
    losses: list[float] = []
    with show_training() as show:

        def report(progress: Progress) -> None:
            losses.append(progress.result.loss)
            show(progress)

        result = pretrain.start(plan, run_dir, report)
    assert result is not None
    say(
        f"4. Pre-trained BERT-tiny for {len(losses):,} steps: loss "
        f"{losses[0]:.2f} -> {losses[-1]:.2f}; the model is in "
        f"{result.model_dir}, the loss curve in {result.curve_path}."
    )
    if result.evaluation is not None:
        mlm, nsp = (result.evaluation[name] for name in ("mlm", "nsp"))
        say(
            f"   On documents it never saw: {mlm.accuracy:.0%} of the hidden "
            f"words and {nsp.accuracy:.0%} of the next sentences right."
        )


def _fill_masks(run_dir: Path) -> None:
    from bert_from_scratch.predict.fill_mask import MaskFiller

    say("5. What would it write?")
    filler = MaskFiller.load(run_dir, "cpu")
    for question in QUESTIONS:
        (mask,) = filler.fill(f"{question} .", top=5)
        guesses = ", ".join(
            f"{c.token} {c.probability:.0%}" for c in mask.candidates
        )
        say(f"   {question}: {guesses}")
