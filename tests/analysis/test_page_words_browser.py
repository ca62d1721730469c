"""What the page says is what it shows: readouts, labels, both languages."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from bert_from_scratch import (
    BertForPreTraining,
    BertModel,
    SequenceClassifier,
)
from bert_from_scratch.analysis.inspection import Inspection
from bert_from_scratch.analysis.inspector import Inspector
from bert_from_scratch.analysis.subject import Model

pytestmark = pytest.mark.browser

Build = Callable[[Model], Inspector]
Open = Callable[[Inspection], Any]


def readout(page: Any) -> str:
    return page.locator("#lines-readout").inner_text()


def test_many_guesses_draw_eight_curves_each_joined_to_its_label(
    open_page: Open, pretrained: BertForPreTraining, inspector_of: Build
) -> None:
    found = inspector_of(pretrained).inspect("the [MASK] fed", top=20)
    page = open_page(found)
    drawn = page.evaluate(
        """() => [...document.querySelectorAll("svg .word")].map((label) => {
          const leader = label.previousSibling;
          const points = leader.previousSibling.getAttribute("points");
          return {
            token: label.textContent,
            y: Number(label.getAttribute("y")),
            joint: Number(leader.getAttribute("y2")) + 4,
            start: Number(leader.getAttribute("y1")),
            end: Number(points.split(",").at(-1)),
            colour: label.style.getPropertyValue("--head"),
          };
        })"""
    )
    courses = found.masks[0].courses
    assert [one["token"] for one in drawn] == [c.token for c in courses[:8]]
    assert len({one["colour"] for one in drawn}) == 8
    heights = sorted(one["y"] for one in drawn)
    gaps = [b - a for a, b in pairwise(heights)]
    assert min(gaps) >= 13.99
    assert heights[0] > 0
    assert heights[-1] < 190
    for one in drawn:
        assert one["joint"] == pytest.approx(one["y"])
        assert one["start"] == pytest.approx(one["end"])
    # 引线不相交：标签的次序与曲线终点的次序相同
    by_end = sorted(drawn, key=lambda one: one["end"])
    assert [one["y"] for one in by_end] == heights
    assert "8 best" in page.locator("figcaption").nth(1).inner_text()


def test_the_slider_holds_for_a_token_alone(
    open_page: Open, encoder: BertModel, inspector_of: Build
) -> None:
    found = inspector_of(encoder).inspect("the old man fed birds")
    page = open_page(found)
    page.locator("#left button").nth(2).click()
    weights = found.maps[-1].weights[:, 2]
    for minimum in (2, 15, 50):
        page.locator("#minimum").fill(str(minimum))
        expected = int((weights >= minimum / 100).sum())
        assert page.evaluate("() => numLines") == expected
    assert ("No weight" in readout(page)) == (expected == 0)


def test_without_a_head_the_reader_is_asked_to_choose_one(
    open_page: Open, encoder: BertModel, inspector_of: Build
) -> None:
    page = open_page(inspector_of(encoder).inspect("the old man", head=2))
    page.locator("#swatches button").nth(1).click()
    assert "choose one" in readout(page)
    assert "slider" not in readout(page)
    page.locator("#left button").nth(1).click()
    assert "choose one" in readout(page)
    assert "choose one" in page.locator("#cls-heads").inner_text()


def test_the_toolbar_tells_which_heads_are_shown(
    open_page: Open, encoder: BertModel, inspector_of: Build
) -> None:
    page = open_page(inspector_of(encoder).inspect("the old man"))
    hint = page.locator("#toolbar-hint")
    chosen = page.locator("#head option:checked")
    assert chosen.inner_text() == "all"
    assert "the matrix shows head 1" in hint.inner_text()
    assert page.locator("#cls-heads").inner_text() == "Layer 3, all 4 heads"
    # 第 1 头原来选不中：列表里早已写着 1
    page.select_option("#head", "1")
    assert page.evaluate("() => [...state.heads]") == [1]
    assert hint.inner_text() == "for head view, matrix and [CLS]"
    assert page.locator("#cls-heads").inner_text() == "Layer 3, head 1"
    page.locator("#swatches button").nth(2).click()
    assert chosen.inner_text() == "2 of 4"
    assert "the matrix shows head 3" in hint.inner_text()
    page.locator("#swatches button").nth(2).click()
    assert page.locator("body").get_attribute("data-drawn") == "3:1"
    page.select_option("#head", "all")
    assert page.locator("#swatches [aria-pressed=true]").count() == 4


def test_repeated_tokens_are_told_apart_by_their_places(
    open_page: Open, encoder: BertModel, inspector_of: Build
) -> None:
    page = open_page(inspector_of(encoder).inspect("the man fed the birds"))
    page.locator("#left button").nth(4).hover()
    assert readout(page).startswith("“the·4” looks at")
    assert "“fed”" in readout(page) or "“man”" in readout(page)
    page.locator("#matrix").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    text = page.locator("#matrix-readout").inner_text()
    assert text.startswith("“the·1” → “the·1”")


def test_the_page_says_whether_the_second_text_follows(
    open_page: Open, pretrained: BertForPreTraining, inspector_of: Build
) -> None:
    found = inspector_of(pretrained).inspect("the man", "he fed birds")
    page = open_page(found)
    assert found.next_sentence is not None
    rows = page.locator("#pair tbody tr").all_inner_texts()
    shares = (found.next_sentence.follows, found.next_sentence.random)
    for row, share in zip(rows, shares, strict=True):
        assert f"{100 * share:.1f} %" in row or f"{100 * share:.2f} %" in row
    best = "B follows A" if shares[0] >= shares[1] else "B is random"
    assert best in page.locator("#pair tr.chosen").inner_text()
    page = open_page(inspector_of(pretrained).inspect("the man"))
    assert page.locator("#pair-panel").is_hidden()


def test_heads_on_cls_have_a_column_of_their_own(
    open_page: Open, encoder: BertModel, inspector_of: Build
) -> None:
    found = inspector_of(encoder).inspect("the old man")
    page = open_page(found)
    values = page.locator("#roles tbody td:nth-child(9)").all_inner_texts()
    assert values == [f"{100 * head.cls:.1f} %" for head in found.heads]
    # 最后一列也在视野之内，不必横向滚动
    assert page.evaluate(
        """() => {
          const box = document.getElementById("roles").parentElement;
          return box.scrollWidth <= box.clientWidth;
        }"""
    )


def test_both_columns_end_at_the_same_height(
    open_page: Open, encoder: BertModel, inspector_of: Build
) -> None:
    page = open_page(inspector_of(encoder).inspect("the old man"))
    ends = page.locator(".stack > :last-child").evaluate_all(
        "(all) => all.map((one) => one.getBoundingClientRect().bottom)"
    )
    assert len(ends) == 2
    assert ends[0] == pytest.approx(ends[1], abs=1)


def test_what_attributions_lack_is_told_as_a_percentage(
    open_page: Open, classifier: SequenceClassifier, inspector_of: Build
) -> None:
    found = inspector_of(classifier).inspect("the old man")
    page = open_page(found)
    text = page.locator("#classes .readout").inner_text()
    assert found.classification is not None
    told = found.classification.attribution
    share = abs(told.gap / (told.logit - told.baseline_logit))
    shown = "< 0.01 %" if share < 5e-5 else f"{100 * share:.2f} %"
    assert f"is missing, {shown} of the difference" in text
    page.locator("#language").click()
    text = page.locator("#classes .readout").inner_text()
    assert f"占差值的 {shown}" in text
    assert "正好" not in page.locator("#classes-panel").inner_text()


def test_chinese_readouts_have_chinese_punctuation(
    open_page: Open, encoder: BertModel, inspector_of: Build
) -> None:
    page = open_page(inspector_of(encoder).inspect("我喜欢学习"))
    page.locator("#language").click()
    page.locator("#left button").nth(2).hover()
    assert "%，“" in readout(page)
    assert readout(page).endswith("。")
    names = page.locator("#roles .role").evaluate_all(
        "(all) => all.map((one) => one.getAttribute('aria-label'))"
    )
    assert all("：" in name and ": " not in name for name in names)


def test_short_chinese_labels_stand_above_their_columns(
    open_page: Open, encoder: BertModel, inspector_of: Build
) -> None:
    page = open_page(inspector_of(encoder).inspect("我喜 man"))
    turned = page.evaluate(
        """() => {
          const seen = {};
          const context = document.createElement("canvas").getContext("2d");
          context.fillText = (text) => {
            seen[text] = Math.abs(context.getTransform().b) > 0.5;
          };
          ["我", "学习", "man", "[CLS]", "##习", "人工智"].forEach((label) =>
            writeAbove(context, label, 50, 50, 90));
          return seen;
        }"""
    )
    standing = {label for label, is_turned in turned.items() if not is_turned}
    assert standing == {"我", "学", "习"}
    assert turned.keys() - standing == {"man", "[CLS]", "##习", "人工智"}
