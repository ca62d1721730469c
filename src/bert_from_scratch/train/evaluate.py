"""How well a model guesses held-out text: MLM and NSP."""

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bert_from_scratch.corpus.files import find_files
from bert_from_scratch.data.masking import MaskingRule
from bert_from_scratch.data.prepare import prepare
from bert_from_scratch.data.pretraining import BatchShape, PretrainingData
from bert_from_scratch.data.shards import TokenShards, fingerprint
from bert_from_scratch.errors import BertError
from bert_from_scratch.model.device import choose_device
from bert_from_scratch.model.directory import find
from bert_from_scratch.objectives.pretraining import BertForPreTraining
from bert_from_scratch.tokenizer import WordPieceTokenizer
from bert_from_scratch.train.evaluation import evaluate_batches
from bert_from_scratch.train.pretraining_plan import MIN_LENGTH

BATCH_TOKENS = 8192


@dataclass(frozen=True)
class Evaluation:
    """What came of an evaluation.

    Attributes:
        mlm_loss: Mean cross-entropy at the hidden positions, in nats.
        perplexity: Its exponential.
        mlm_accuracy: Share of hidden tokens guessed right.
        nsp_accuracy: Share of pairs judged right; None: no pairs.
        num_tokens: Tokens read.
    """

    mlm_loss: float
    perplexity: float
    mlm_accuracy: float
    nsp_accuracy: float | None
    num_tokens: int


def evaluate(
    model_dir: Path,
    data: Path,
    *,
    max_length: int = 128,
    max_tokens: int = 1 << 20,
    seed: int = 0,
    device: str = "auto",
) -> Evaluation:
    """Evaluates a model on token shards, or on text.

    Args:
        model_dir: A model or run directory with an MLM head.
        data: Token shards, a text file, or a folder of them.
        max_length: Longest sequence.
        max_tokens: How much to read at the most.
        seed: Decides pairs and masks.
        device: Where to compute.
    """
    for flag, value, least in (
        ("--max-length", max_length, MIN_LENGTH),
        ("--max-tokens", max_tokens, 1),
        ("--seed", seed, 0),
    ):
        if value < least:
            raise BertError(f"{flag} must be at least {least}: {value}.")
    model_dir = find(model_dir)
    tokenizer = WordPieceTokenizer.load(model_dir)
    if (data / "meta.json").is_file():
        return _evaluate(
            model_dir, data, tokenizer, max_length, max_tokens, seed, device
        )
    with tempfile.TemporaryDirectory() as folder:
        shards_dir = Path(folder) / "data"
        prepare(find_files([data]), model_dir, shards_dir)
        return _evaluate(
            model_dir,
            shards_dir,
            tokenizer,
            max_length,
            max_tokens,
            seed,
            device,
        )


def _evaluate(
    model_dir: Path,
    shards_dir: Path,
    tokenizer: WordPieceTokenizer,
    max_length: int,
    max_tokens: int,
    seed: int,
    device: str,
) -> Evaluation:
    shards = TokenShards.open(shards_dir)
    if shards.meta.tokenizer_sha256 != fingerprint(tokenizer):
        raise BertError(
            f"{shards_dir} was made with another tokenizer than {model_dir}.",
            hint="give the text itself, or run bert prepare again",
        )
    has_pairs = _can_make_pairs(shards)
    required = ("mlm_head", "nsp_head") if has_pairs else ("mlm_head",)
    model = BertForPreTraining.from_pretrained(model_dir, required)
    chosen = choose_device(device)
    source = PretrainingData(
        shards,
        tokenizer,
        BatchShape.plan(BATCH_TOKENS, max_length),
        MaskingRule.of(tokenizer),
        seed,
        with_pairs=has_pairs,
    )
    parts = evaluate_batches(
        model.to(chosen), source.sample(max_tokens), chosen
    )
    return Evaluation(
        mlm_loss=parts["mlm"].loss,
        perplexity=math.exp(min(parts["mlm"].loss, 700)),
        mlm_accuracy=parts["mlm"].accuracy,
        nsp_accuracy=parts["nsp"].accuracy if has_pairs else None,
        num_tokens=min(max_tokens, shards.meta.num_tokens),
    )


def _can_make_pairs(shards: TokenShards) -> bool:
    documents = shards.documents()
    has_pair = (documents.last - documents.first >= 2).any()
    return bool(has_pair) and len(documents) >= 2
