"""An inspection as JSON, as a file, and in a notebook."""

import html
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bert_from_scratch import BertForPreTraining, SequenceClassifier
from bert_from_scratch.analysis.attention_maps import unpack
from bert_from_scratch.analysis.inspection import Inspection
from bert_from_scratch.analysis.inspector import Inspector
from bert_from_scratch.analysis.subject import Model

Build = Callable[[Model], Inspector]


@pytest.fixture(scope="module")
def inspection(
    pretrained: BertForPreTraining, inspector_of: Build
) -> Inspection:
    return inspector_of(pretrained).inspect("the [MASK] fed", '<b> "he"')


def read_data(page: str) -> dict[str, object]:
    (text,) = re.findall(r'id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def test_the_page_carries_the_values_and_the_exact_weights(
    inspection: Inspection,
) -> None:
    values = read_data(inspection.to_page())
    maps = values.pop("maps")
    assert values == json.loads(json.dumps(inspection.to_dict()))
    assert isinstance(maps, list)
    for packed, one in zip(maps, inspection.maps, strict=True):
        assert np.array_equal(unpack(packed, 4), one.weights)


def test_the_gap_of_attributions_is_told(
    classifier: SequenceClassifier, inspector_of: Build
) -> None:
    found = inspector_of(classifier).inspect("the old man")
    assert found.classification is not None
    told = found.to_dict()["classification"]["attribution"]
    assert told["gap"] == found.classification.attribution.gap


def test_save_writes_the_page(inspection: Inspection, tmp_path: Path) -> None:
    path = tmp_path / "new" / "page.html"
    inspection.save(path)
    assert path.read_text(encoding="utf-8") == inspection.to_page()
    assert list(path.parent.iterdir()) == [path]


def test_a_notebook_shows_the_page_in_a_closed_frame(
    inspection: Inspection,
) -> None:
    shown = inspection._repr_html_()
    found = re.fullmatch(r'<iframe srcdoc="([^"]*)" ([^<>]*)></iframe>', shown)
    assert found is not None
    assert html.unescape(found[1]) == inspection.to_page()
    assert 'sandbox="allow-scripts"' in found[2]
