"""Masks are filled one by one, by real probabilities."""

from pathlib import Path

import pytest
import torch
import transformers

from bert_from_scratch import (
    BertConfig,
    BertError,
    BertForPreTraining,
    WordPieceTokenizer,
)
from bert_from_scratch.predict.fill_mask import MaskFiller

TOKENS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("the", "man", "reads", "book"),
]


@pytest.fixture(scope="module")
def filler() -> MaskFiller:
    torch.manual_seed(0)
    config = BertConfig.preset("tiny", vocab_size=len(TOKENS))
    model = BertForPreTraining(config)
    return MaskFiller(model, WordPieceTokenizer(TOKENS))


def test_probabilities_sum_to_one_and_fall(filler: MaskFiller) -> None:
    (mask,) = filler.fill("the man [MASK] the book", top=100)
    probabilities = [c.probability for c in mask.candidates]
    assert len(probabilities) == len(TOKENS)
    assert sum(probabilities) == pytest.approx(1)
    assert probabilities == sorted(probabilities, reverse=True)
    assert mask.position == 3


def test_the_filled_text_holds_the_candidate(filler: MaskFiller) -> None:
    (mask,) = filler.fill("the man [MASK] the book", top=9)
    texts = {c.token: c.text for c in mask.candidates}
    assert texts["reads"] == "the man reads the book"


def test_several_masks_are_answered_one_by_one(filler: MaskFiller) -> None:
    masks = filler.fill("[MASK] man [MASK] the book", top=1)
    assert [mask.position for mask in masks] == [1, 3]
    # 填第一个时，第二个仍是 [MASK]
    assert "[MASK]" in masks[0].candidates[0].text


def test_a_text_without_a_mask_is_refused(filler: MaskFiller) -> None:
    with pytest.raises(BertError, match=r"no \[MASK\]") as caught:
        filler.fill("the man reads")
    assert caught.value.hint
    with pytest.raises(BertError, match="--top"):
        filler.fill("[MASK]", top=0)


def test_a_model_without_an_mlm_head_is_refused(tmp_path: Path) -> None:
    model = BertForPreTraining(BertConfig.preset("tiny", vocab_size=9))
    model.bert.save_pretrained(tmp_path)
    WordPieceTokenizer(TOKENS).save(tmp_path)
    with pytest.raises(BertError, match=r"cls\.predictions"):
        MaskFiller.load(tmp_path, "cpu")


@pytest.mark.slow
def test_a_real_model_fills_masks_as_transformers_does(
    antiberty_dir: Path,
) -> None:
    # 一段抗体重链的开头，氨基酸逐个写成词
    text = "E V Q L V E S G G G L V Q [MASK] G G S L R L S C A A S"
    filler = MaskFiller.load(antiberty_dir, "cpu")
    (mask,) = filler.fill(text, top=25)
    peer = transformers.BertForMaskedLM.from_pretrained(antiberty_dir).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(antiberty_dir)
    inputs = tokenizer(text, return_tensors="pt")
    assert inputs["input_ids"][0, mask.position] == tokenizer.mask_token_id
    with torch.no_grad():
        logits = peer(**inputs).logits[0, mask.position]
    expected = logits.softmax(-1)
    assert mask.candidates[0].token == "P"
    for candidate in mask.candidates:
        assert candidate.probability == pytest.approx(
            expected[candidate.token_id].item(), abs=1e-5
        )
