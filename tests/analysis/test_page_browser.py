"""The page in a real browser: from disk, without a network, by hand and key."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from bert_from_scratch import (
    BertConfig,
    BertForPreTraining,
    BertModel,
    SequenceClassifier,
    WordPieceTokenizer,
)
from bert_from_scratch.analysis.inspection import Inspection
from bert_from_scratch.analysis.inspector import Inspector
from bert_from_scratch.analysis.subject import Model, Subject

pytestmark = pytest.mark.browser

Build = Callable[[Model], Inspector]
Open = Callable[[Inspection], Any]
NASTY = 'the <script>alert(1)</script> "man" & $ 我喜欢'


def weight_shown(page: Any, row: int, column: int) -> float:
    """Points at a cell of the matrix and reads its weight."""
    box = page.evaluate("() => matrixBox")
    page.locator("#matrix").hover(
        position={
            "x": box["left"] + (column + 0.5) * box["cell"],
            "y": box["top"] + (row + 0.5) * box["cell"],
        }
    )
    return float(page.locator("#matrix-readout").inner_text().split()[-1])


def painted(page: Any, canvas: str) -> str:
    """Returns all pixels of a canvas."""
    return page.evaluate(
        "id => document.getElementById(id).toDataURL()", canvas
    )


def test_layer_and_head_change_what_is_shown(
    open_page: Open, encoder: BertModel, inspector_of: Build
) -> None:
    found = inspector_of(encoder).inspect("the old man fed birds", layer=2)
    page = open_page(found)
    assert page.locator("body").get_attribute("data-drawn") == "2:1"
    for layer, head in ((3, 1), (3, 4), (1, 4)):
        page.select_option("#layer", str(layer))
        page.select_option("#head", str(head))
        page.wait_for_selector(f"body[data-drawn='{layer}:{head}']")
        expected = found.maps[layer - 1].weights[head - 1]
        for row, column in ((0, 0), (2, 5), (6, 1)):
            weight = weight_shown(page, row, column)
            assert weight == pytest.approx(expected[row, column], abs=1e-6)
    assert page.locator("#roles tr.chosen").count() == 1
    text = page.locator("#roles tr.chosen").inner_text().split()
    assert text[:2] == ["1", "4"]


def test_the_browser_unpacks_every_form_of_weights(
    open_page: Open, encoder: BertModel, inspector_of: Build
) -> None:
    found = inspector_of(encoder).inspect("the old man fed " * 32, layer=2)
    page = open_page(found)
    forms = {one.pack()["form"] for one in found.maps}
    assert forms == {"queries_keys", "levels"}
    for layer in (1, 2, 3):
        shown = page.evaluate(
            """async (layer) => {
              const maps = await loadLayer(layer);
              return [1, 4].flatMap((head) => [0, 77, 129].map(
                (i) => weightOf(maps, head, i, 128 - i % 3)));
            }""",
            layer,
        )
        expected = [
            found.maps[layer - 1].weights[head - 1, i, 128 - i % 3]
            for head in (1, 4)
            for i in (0, 77, 129)
        ]
        assert shown == pytest.approx(expected, abs=1e-6)
    assert "layer 2 is exact" in page.locator("#notes").inner_text()
    assert page.locator("#exactness").inner_text() == "exact (float32)"
    page.select_option("#layer", "1")
    page.wait_for_selector("body[data-drawn='1:1']")
    assert "8-bit" in page.locator("#exactness").inner_text()


def test_pointing_at_a_token_isolates_its_lines(
    open_page: Open, encoder: BertModel, inspector_of: Build
) -> None:
    found = inspector_of(encoder).inspect("the old man fed birds")
    page = open_page(found)
    everything = painted(page, "lines")
    page.locator("#left button").nth(2).hover()
    alone = painted(page, "lines")
    assert alone != everything
    mean = found.maps[-1].weights[:, 2].mean(0)
    for place, share in enumerate(mean):
        text = page.locator("#right .share").nth(place).inner_text()
        assert float(text.rstrip(" %")) == pytest.approx(100 * share, abs=0.06)
    assert "“old” looks at" in page.locator("#lines-readout").inner_text()
    page.locator("#heads-title").hover()
    assert painted(page, "lines") == everything
    # 点击后保留，指向别处也不变；每个头都有自己的线
    page.locator("#left button").nth(2).click()
    page.locator("#left button").nth(4).hover()
    assert painted(page, "lines") == alone
    page.locator("#swatches button").nth(3).click()
    assert painted(page, "lines") != alone
    page.keyboard.press("Escape")
    page.locator("#all-heads").click()
    assert painted(page, "lines") == everything


def test_heads_are_switched_by_their_colours(
    open_page: Open, encoder: BertModel, inspector_of: Build
) -> None:
    page = open_page(inspector_of(encoder).inspect("the old man", head=2))
    pressed = page.locator("#swatches [aria-pressed=true]")
    assert pressed.all_inner_texts() == ["2"]
    one = painted(page, "lines")
    page.locator("#swatches button").nth(0).click()
    assert pressed.all_inner_texts() == ["1", "2"]
    assert painted(page, "lines") != one
    page.locator("#all-heads").click()
    assert pressed.count() == 4


def test_thumbnails_and_table_rows_choose_a_head(
    open_page: Open, encoder: BertModel, inspector_of: Build
) -> None:
    page = open_page(inspector_of(encoder).inspect("the old man"))
    size = page.evaluate("() => [GUTTER, cellSize]")
    place = {"x": size[0] + 2.5 * size[1], "y": size[0] + 0.5 * size[1]}
    page.locator("#thumbnails").click(position=place)
    page.wait_for_selector("body[data-drawn='1:3']")
    page.locator("#thumbnails").press("ArrowDown")
    page.wait_for_selector("body[data-drawn='2:3']")
    page.locator("#roles th button").nth(3).click()
    values = page.locator("#roles tbody td:nth-child(4)").all_inner_texts()
    assert values == sorted(values, key=float, reverse=True)
    row = page.locator("#roles tbody tr").nth(5)
    layer, head = row.inner_text().split()[:2]
    row.locator(".role").press("Enter")
    page.wait_for_selector(f"body[data-drawn='{layer}:{head}']")


def test_everything_is_reached_by_keys(
    open_page: Open, encoder: BertModel, inspector_of: Build
) -> None:
    found = inspector_of(encoder).inspect("the old man")
    page = open_page(found)
    page.locator("#left button").nth(0).focus()
    page.keyboard.press("ArrowDown")
    assert "“the” looks at" in page.locator("#lines-readout").inner_text()
    page.keyboard.press("ArrowRight")
    readout = page.locator("#lines-readout").inner_text()
    assert "“the” is looked at by" in readout
    page.locator("#matrix").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    weight = float(page.locator("#matrix-readout").inner_text().split()[-1])
    expected = found.maps[-1].weights[0, 1, 1]
    assert weight == pytest.approx(expected, abs=1e-6)
    page.locator("#cls").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    weight = float(page.locator("#cls-readout").inner_text().split()[-1])
    assert weight == pytest.approx(
        found.maps[1].weights[:, 0, 1].mean(), abs=1e-6
    )


def test_markup_in_a_text_is_shown_and_not_run(
    open_page: Open, pretrained: BertForPreTraining, inspector_of: Build
) -> None:
    found = inspector_of(pretrained).inspect(NASTY + " [MASK]", NASTY)
    page = open_page(found)
    shown = page.locator("#text span").all_inner_texts()
    assert shown == [NASTY + " [MASK]", NASTY]
    tokens = page.locator("#tokens code").all_inner_texts()
    assert tokens == [token.token for token in found.tokens]
    assert {"<", "script", ">", '"', "&"} <= set(tokens)
    assert page.locator("script").count() == 2
    assert page.title().startswith("tiny: the <script>alert(1)</script>")


def test_masks_show_the_answer_and_its_formation(
    open_page: Open, pretrained: BertForPreTraining, inspector_of: Build
) -> None:
    found = inspector_of(pretrained).inspect("the [MASK] was [MASK]", top=3)
    page = open_page(found)
    assert page.locator("#masks article").count() == 2
    best = page.locator("#masks article").first.locator(".guess b")
    answer = [guess.token for guess in found.masks[0].layers[-1]]
    assert best.all_inner_texts() == answer
    rows = page.locator("#masks article").first.locator(".guesses tr")
    assert rows.count() == 4
    first = [guess.token for guess in found.masks[0].layers[0]]
    assert rows.nth(0).locator("td").all_inner_texts() == first
    assert page.locator("#masks polyline").count() == 6
    assert page.locator("#classes-panel").is_hidden()


def test_a_classifier_shows_probabilities_and_reasons(
    open_page: Open, classifier: SequenceClassifier, inspector_of: Build
) -> None:
    found = inspector_of(classifier).inspect("the old man")
    page = open_page(found)
    assert found.classification is not None
    best = max(found.classification.classes, key=lambda c: c.logit)
    row = page.locator(".classes tr.chosen").inner_text()
    assert best.label in row
    assert best.probability is not None
    assert f"{100 * best.probability:.1f} %" in row
    pieces = page.locator("#classes .passage .tinted")
    scores = found.classification.attribution.scores
    for place, score in enumerate(scores):
        side = "for" if score >= 0 else "against"
        assert side in str(pieces.nth(place).get_attribute("class")).split()
    assert page.locator("#masks-panel").is_hidden()


def test_the_page_speaks_chinese_too(
    open_page: Open, encoder: BertModel, inspector_of: Build
) -> None:
    page = open_page(inspector_of(encoder).inspect("我喜欢[MASK]"))
    assert page.locator("#heads-title").inner_text() == "Head view"
    assert "no masked-word head" in page.locator("#notes").inner_text()
    page.locator("#language").click()
    assert page.locator("#heads-title").inner_text() == "头视图"
    assert page.locator("html").get_attribute("lang") == "zh-CN"
    assert "没有掩码词预测头" in page.locator("#notes").inner_text()


@pytest.mark.parametrize("width", [1280, 800, 390])
def test_nothing_sticks_out_sideways(
    open_page: Open,
    pretrained: BertForPreTraining,
    inspector_of: Build,
    width: int,
) -> None:
    page = open_page(inspector_of(pretrained).inspect("the [MASK] " * 12))
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_timeout(100)
    wide = page.evaluate("() => document.documentElement.scrollWidth")
    assert wide <= width


def test_dark_and_light_paint_different_pictures(
    open_page: Open, encoder: BertModel, inspector_of: Build
) -> None:
    page = open_page(inspector_of(encoder).inspect("the old man"))
    light = painted(page, "model")
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(100)
    assert painted(page, "model") != light


def test_a_notebook_frame_runs_the_page_and_keeps_it_in(
    browser: Any, encoder: BertModel, inspector_of: Build
) -> None:
    found = inspector_of(encoder).inspect(NASTY)
    page = browser.new_page()
    page.set_content(f"<p id=outside>cell</p>{found._repr_html_()}")
    frame = page.frame_locator("iframe")
    frame.locator("body[data-complete=true]").wait_for()
    assert frame.locator("#text").inner_text() == NASTY
    # 沙盒里的页面够不着笔记本
    reached = page.frames[1].evaluate(
        "() => { try { return !!parent.document; } catch { return false; } }"
    )
    assert reached is False
    page.close()


@pytest.fixture(scope="module")
def long_inspection() -> Inspection:
    """512 tokens through a random model of BERT-base's shape."""
    words = [f"w{number}" for number in range(300)]
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = WordPieceTokenizer([*specials, *words])
    torch.manual_seed(0)
    config = BertConfig.preset("base", vocab_size=len(tokenizer))
    model = BertModel(config).eval()
    subject = Subject("base", "BertModel", model, tokenizer)
    text = " ".join(words[number * 7 % 300] for number in range(510))
    return Inspector(subject).inspect(text, layer=4)


def test_a_long_page_of_base_size_is_small_and_follows_every_change(
    open_page: Open, long_inspection: Inspection
) -> None:
    assert len(long_inspection.tokens) == 512
    assert len(long_inspection.to_page().encode()) < 15e6
    page = open_page(long_inspection)
    for minimum in ("4", "0"):
        page.locator("#minimum").fill(minimum)
        # 快不快由 benchmarks/inspect_page.py 去量；这里只看每次都画出来了
        for layer in ("1", "12", "4"):
            page.locator("#layer").select_option(layer)
            page.locator(f'body[data-drawn="{layer}:1"]').wait_for()
        readout = page.locator("#lines-readout").inner_text()
        # 近乎均匀的头没有一个权重到 4 %；下限为零时又多得画不完
        note = "No weight" if minimum == "4" else "800 strongest lines"
        assert note in readout
