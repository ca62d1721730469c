"""How often a hidden token becomes what, counted on real masks."""

from dataclasses import dataclass, replace

import torch

from bert_from_scratch.corpus.builtin import simple_sentences
from bert_from_scratch.data.batch import IGNORE_INDEX, pack
from bert_from_scratch.data.masking import MaskingRule, mask_tokens
from bert_from_scratch.tokenizer import WordPieceTokenizer

VOCAB_SIZE = 160
# 短句各自取整，会偏离 15%；许多句连成长行，比例才看得准
SENTENCES_A_ROW = 20
NUM_STEPS = 50


@dataclass(frozen=True)
class ReplacementCounts:
    """What became of the tokens of some text.

    Attributes:
        num_tokens: All tokens, [CLS] and [SEP] included.
        num_mask: Hidden ones that became [MASK].
        num_random: Hidden ones that became another token.
        num_kept: Hidden ones that stayed.
    """

    num_tokens: int
    num_mask: int
    num_random: int
    num_kept: int

    @property
    def num_hidden(self) -> int:
        """All that the model is asked about."""
        return self.num_mask + self.num_random + self.num_kept

    def shares(self) -> dict[str, float]:
        """Returns the shares of the hidden tokens by what they became."""
        counts = {
            "mask": self.num_mask,
            "random": self.num_random,
            "kept": self.num_kept,
        }
        return {name: n / self.num_hidden for name, n in counts.items()}


def count_replacements(num_steps: int = NUM_STEPS) -> ReplacementCounts:
    """Masks the simple sentences again and again, as pre-training does."""
    sentences = simple_sentences()
    tokenizer = WordPieceTokenizer.train(sentences, VOCAB_SIZE)
    rows = [
        " ".join(sentences[start : start + SENTENCES_A_ROW])
        for start in range(0, len(sentences), SENTENCES_A_ROW)
    ]
    batch = pack(tokenizer.encode_batch(rows))
    batch = replace(batch, sequence_keys=torch.arange(len(rows)))
    rule = MaskingRule.of(tokenizer)
    num_mask = num_kept = num_hidden = 0
    for step in range(num_steps):
        masked = mask_tokens(batch, rule, seed=0, step=step)
        assert masked.mlm_positions is not None
        assert masked.mlm_labels is not None
        is_asked = masked.mlm_labels != IGNORE_INDEX
        shown = masked.input_ids[masked.mlm_positions[is_asked]]
        num_hidden += len(shown)
        num_mask += int((shown == tokenizer.mask_token_id).sum())
        num_kept += int((shown == masked.mlm_labels[is_asked]).sum())
    return ReplacementCounts(
        num_tokens=num_steps * len(batch.input_ids),
        num_mask=num_mask,
        num_random=num_hidden - num_mask - num_kept,
        num_kept=num_kept,
    )
