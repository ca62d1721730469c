"""Every recipe reads the official files, wherever they were unpacked."""

import json
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from bert_from_scratch import BertError
from bert_from_scratch.data.tasks.examples import (
    Answer,
    ChoiceExample,
    QuestionExample,
    TagExample,
    TextExample,
)
from bert_from_scratch.data.tasks.recipe import Example
from bert_from_scratch.data.tasks.recipes import RECIPES, load_recipe

MRPC_HEADER = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
MNLI_START = (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\t"
    "sentence2_binary_parse\tsentence1_parse\tsentence2_parse\t"
    "sentence1\tsentence2\tlabel1\t"
)
QQP_HEADER = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
STSB_HEADER = (
    "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\t"
    "sentence1\tsentence2\tscore\n"
)
SWAG_HEADER = (
    ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,"
    "ending0,ending1,ending2,ending3,label\n"
)


def put(folder: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
    return folder


def plain(examples: Sequence[Example] | None) -> list[tuple[object, ...]]:
    """Returns texts, pairs and labels."""
    kept: list[tuple[object, ...]] = []
    for example in examples or ():
        assert isinstance(example, TextExample)
        kept.append((example.text, example.pair, example.labels))
    return kept


# 每个任务：目录、训练文件、开发文件（官方格式）、训练集第一例
TEXTS = {
    "sst2": (
        "SST-2",
        "sentence\tlabel\na warm film \t1\n",
        "sentence\tlabel\ndull \t0\n",
        ("a warm film ", None, ("1",)),
    ),
    "cola": (
        "CoLA",
        "bk1\t1\t\tThe dog sat.\nbk1\t0\t*\tDog the sat.\n",
        "bk2\t0\t*\tSat.",
        ("The dog sat.", None, ("1",)),
    ),
    "mrpc": (
        "MRPC",
        MRPC_HEADER + '1\t7\t8\tHe said " no .\tNo , he said .\n',
        MRPC_HEADER + "0\t5\t6\tIt rains .\tIt snows .\n",
        ('He said " no .', "No , he said .", ("1",)),
    ),
    "rte": (
        "RTE",
        "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tentailment\n",
        "index\tsentence1\tsentence2\tlabel\n0\tC.\tD.\tnot_entailment\n",
        ("A.", "B.", ("entailment",)),
    ),
    "wnli": (
        "WNLI",
        "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\t1\n",
        "index\tsentence1\tsentence2\tlabel\n0\tC.\tD.\t0\n",
        ("A.", "B.", ("1",)),
    ),
    "qnli": (
        "QNLI",
        "index\tquestion\tsentence\tlabel\n0\tWho?\tMe.\tentailment\n",
        "index\tquestion\tsentence\tlabel\n0\tWhy?\tMe.\tnot_entailment\n",
        ("Who?", "Me.", ("entailment",)),
    ),
    "stsb": (
        "STS-B",
        STSB_HEADER + "0\tg\tf\t2012\t1\tn\tn\tA cat.\tOne cat.\t4.750\n",
        STSB_HEADER + "0\tg\tf\t2012\t2\tn\tn\tA cat.\tA bus.\t0.000\n",
        ("A cat.", "One cat.", ("4.750",)),
    ),
    "qqp": (
        "QQP",
        QQP_HEADER + "1\t2\t3\tHow?\tIn what way?\t1\n",
        QQP_HEADER + "4\t5\t6\tWho?\tWhen?\t0\n",
        ("How?", "In what way?", ("1",)),
    ),
    "chnsenticorp": (
        "chnsenticorp",
        "label\ttext_a\n1\t房间很干净。\n",
        "label\ttext_a\n0\t早饭太凉了。\n",
        ("房间很干净。", None, ("1",)),
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_tables_are_read_from_their_folder_or_above(
    tmp_path: Path, name: str
) -> None:
    folder, train, dev, first = TEXTS[name]
    put(tmp_path / folder, {"train.tsv": train, "dev.tsv": dev})
    data = load_recipe(name, tmp_path)
    assert plain(data.train)[0] == first
    assert len(data.dev) == 1
    assert data.test is None
    assert data.notes == ()
    assert data.sources["dev"] == str(tmp_path / folder / "dev.tsv")
    assert load_recipe(name, tmp_path / folder) == data


def test_a_folder_of_the_tasks_name_comes_first(tmp_path: Path) -> None:
    _, train, dev, _ = TEXTS["sst2"]
    files = {"train.tsv": train, "dev.tsv": dev}
    put(tmp_path / "SST-2", files)
    put(tmp_path, {"train.tsv": TEXTS["rte"][1]})
    assert len(load_recipe("sst2", tmp_path).train) == 1


def test_mrpc_has_a_labelled_test_set(tmp_path: Path) -> None:
    _, train, dev, _ = TEXTS["mrpc"]
    put(tmp_path, {"train.tsv": train, "dev.tsv": dev})
    put(tmp_path, {"test_labelled.txt": MRPC_HEADER + "1\t1\t2\ta\tb\n"})
    assert plain(load_recipe("mrpc", tmp_path).test) == [("a", "b", ("1",))]


def test_mrpc_is_read_as_microsoft_packed_it(tmp_path: Path) -> None:
    _, train, dev, first = TEXTS["mrpc"]
    names = ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt")
    put(tmp_path, dict(zip(names, (train, dev), strict=True)))
    data = load_recipe("mrpc", tmp_path)
    assert plain(data.train) == [first]
    assert data.test is None
    assert 'the test set, "msr_paraphrase_test.txt"' in data.notes[0]


def test_qqp_leaves_damaged_rows_out_and_says_so(tmp_path: Path) -> None:
    _, train, dev, first = TEXTS["qqp"]
    damaged = "7\t8\t9\tHalf a row\n1\t2\t3\tOne?\t\t0\n"
    put(tmp_path, {"train.tsv": train + damaged, "dev.tsv": dev})
    data = load_recipe("qqp", tmp_path)
    assert plain(data.train) == [first]
    assert data.notes == ("train.tsv: 2 damaged rows were left out",)


def test_mnli_has_two_development_sets(tmp_path: Path) -> None:
    start = "0\tp\tq\tfiction\t-\t-\t-\t-\tA man.\tA cat.\t"
    labels = "label2\tlabel3\tlabel4\tlabel5\tgold_label\n"
    votes = "neutral\t" * 5
    dev = MNLI_START + labels + start + votes
    put(
        tmp_path / "MNLI",
        {
            "train.tsv": f"{MNLI_START}gold_label\n{start}neutral\tneutral\n",
            "dev_matched.tsv": f"{dev}neutral\n{start}{votes}-\n",
            "dev_mismatched.tsv": f"{dev}contradiction\n",
        },
    )
    data = load_recipe("mnli", tmp_path)
    assert plain(data.train) == [("A man.", "A cat.", ("neutral",))]
    assert plain(data.dev) == plain(data.train)
    assert plain(data.extra["mismatched"])[0][2] == ("contradiction",)
    assert data.notes == (
        "dev_matched.tsv: 1 rows without an agreed label were left out",
    )


@pytest.mark.parametrize("below", [".", "aclImdb", "imdb/aclImdb"])
def test_imdb_is_judged_by_its_test_set(tmp_path: Path, below: str) -> None:
    names = ("train/pos/0_9.txt", "train/neg/0_2.txt", "test/neg/1_1.txt")
    put(tmp_path / below, dict.fromkeys(names, "It was long.<br />Very."))
    put(tmp_path / below, {"train/unsup/0_0.txt": "No label."})
    data = load_recipe("imdb", tmp_path)
    assert [row[2] for row in plain(data.train)] == [("neg",), ("pos",)]
    assert len(data.dev) == 1
    assert data.test is None
    assert "no development set" in data.notes[0]


def test_swag_reads_train_and_val(tmp_path: Path) -> None:
    row = '3,v,1,s,"A cook, a pan.",He,gold,eats.,sits.,runs.,naps.,2\n'
    put(tmp_path, dict.fromkeys(("train.csv", "val.csv"), SWAG_HEADER + row))
    data = load_recipe("swag", tmp_path)
    example = data.dev[0]
    assert isinstance(example, ChoiceExample)
    assert example.prompt == "A cook, a pan."
    assert example.choices[2:] == ("He runs.", "He naps.")
    assert (example.answer, len(data.train)) == (2, 1)


def test_dream_has_three_sets(tmp_path: Path) -> None:
    asked = {
        "question": "When?",
        "choice": ["Now.", "Then."],
        "answer": "Then.",
    }
    text = json.dumps([[["M: Later.", "W: Fine."], [asked], "1-1"]])
    names = ("train.json", "dev.json", "test.json")
    put(tmp_path / "dream", dict.fromkeys(names, text))
    data = load_recipe("dream", tmp_path)
    example = (data.test or [])[0]
    assert isinstance(example, ChoiceExample)
    assert example.choices == ("When? Now.", "When? Then.")
    assert example.answer == 1


def codah_row(number: int) -> str:
    return f"o\tThe {number}th man\tsat\tate\tran\tflew\t{number % 4}\n"


def test_codah_uses_its_first_fold(tmp_path: Path) -> None:
    files = {"full_data.tsv": "".join(map(codah_row, range(3)))}
    for number, part in enumerate(("train", "dev", "test")):
        files[f"cv_split/fold_0/{part}.tsv"] = codah_row(number)
    put(tmp_path / "codah", files)
    for folder in (tmp_path, tmp_path / "codah"):
        data = load_recipe("codah", folder)
        answers = [
            part[0].answer
            for part in (data.train, data.dev, data.test or [])
            if isinstance(part[0], ChoiceExample)
        ]
        assert answers == [0, 1, 2]


def test_codah_without_folds_is_divided_by_a_fixed_rule(
    tmp_path: Path,
) -> None:
    rows = [codah_row(number) for number in range(1000)]
    put(tmp_path, {"full_data.tsv": "".join(rows)})
    data = load_recipe("codah", tmp_path)
    assert len(data.train) + len(data.dev) == 1000
    assert 150 < len(data.dev) < 250
    assert "no official division" in data.notes[0]

    def prompts(examples: Sequence[Example]) -> set[str]:
        return {e.prompt for e in examples if isinstance(e, ChoiceExample)}

    assert not prompts(data.train) & prompts(data.dev)
    put(tmp_path, {"full_data.tsv": "".join(reversed(rows))})
    again = load_recipe("codah", tmp_path)
    assert prompts(again.dev) == prompts(data.dev)


def test_conll_has_three_sets_and_documents(tmp_path: Path) -> None:
    document = "-DOCSTART- -X- -X- O\n\nMia NNP B-NP B-PER\nran VBD B-VP O\n\n"
    names = ("train.txt", "valid.txt", "test.txt")
    put(tmp_path, dict.fromkeys(names, document * 2))
    data = load_recipe("conll2003", tmp_path)
    documents = [e.document for e in data.train if isinstance(e, TagExample)]
    assert documents == [0, 1]
    assert len(data.dev) == len(data.test or []) == 2
    assert RECIPES["conll2003"].document_context


def test_msra_is_repaired_and_judged_by_its_test_set(tmp_path: Path) -> None:
    put(
        tmp_path / "msra_ner",
        {
            "train.txt": "李 B-PER\n\n明 I-PER\n来 O\n",
            "test.txt": "雨 O\n\n京 B-LOC\n",
        },
    )
    data = load_recipe("msra", tmp_path)
    example = data.train[1]
    assert isinstance(example, TagExample)
    assert example.tags == ("B-PER", "O")
    assert data.test is None
    assert "no development set" in data.notes[0]
    assert data.notes[1].startswith("train.txt: 1 I- tags")


def squad(text: str, start: int, name: str = "q", **more: object) -> str:
    answers = [] if more else [{"text": text, "answer_start": start}]
    asked = {"id": name, "question": "Who?", "answers": answers, **more}
    sound = {**asked, "id": "sound", "question": "Really?"}
    sound |= {"answers": [{"text": "Mia", "answer_start": 0}]}
    sound["is_impossible"] = False
    paragraph = {"id": "P", "context": "Mia ran.", "qas": [asked, sound]}
    return json.dumps({"data": [{"paragraphs": [paragraph]}]})


def test_squad_says_that_a_part_stands_for_the_whole(tmp_path: Path) -> None:
    put(
        tmp_path / "squad",
        {
            "train-v1.1-subset.json": squad("ran", 4),
            "dev-v1.1.json": squad("Mia", 0),
        },
    )
    data = load_recipe("squad", tmp_path)
    assert data.notes == ("train-v1.1-subset.json stands for train-v1.1.json",)
    put(tmp_path / "squad", {"train-v1.1-other.json": squad("ran", 4)})
    with pytest.raises(BertError, match=r"several files.*other.*subset"):
        load_recipe("squad", tmp_path)
    put(tmp_path / "squad", {"train-v1.1.json": squad("ran", 4)})
    assert load_recipe("squad", tmp_path).notes == ()


@pytest.mark.parametrize(
    ("train", "dev", "num_notes"),
    [
        ("train-v2.0.json", "dev-v2.0.json", 0),
        ("v2.0-train-part.json", "v2.0-dev-part.json", 2),
    ],
)
def test_squad2_has_questions_without_answers(
    tmp_path: Path, train: str, dev: str, num_notes: int
) -> None:
    content = squad("", 0, is_impossible=True)
    put(tmp_path, {train: content, dev: content})
    data = load_recipe("squad2", tmp_path)
    example = data.dev[0]
    assert isinstance(example, QuestionExample)
    assert example.is_impossible
    assert len(data.notes) == num_notes
    assert RECIPES["squad2"].has_null


@pytest.mark.parametrize("prefix", ["", "cmrc2018_"])
def test_cmrc_counts_answers_that_moved_or_are_lost(
    tmp_path: Path, prefix: str
) -> None:
    content = {
        f"{prefix}train.json": squad("ran", 1),
        f"{prefix}dev.json": squad("walked", -1),
    }
    put(tmp_path / "cmrc2018", content)
    data = load_recipe("cmrc2018", tmp_path)
    example = data.train[0]
    assert isinstance(example, QuestionExample)
    assert example.answers == (Answer("ran", 4),)
    assert data.notes == (
        f"{prefix}train.json: 1 answers moved to where their text is",
        f"{prefix}dev.json: 1 answers are nowhere in their context",
    )


def test_lost_answers_leave_the_training_set_alone(tmp_path: Path) -> None:
    content = squad("walked", -1)
    put(tmp_path, {"train.json": content, "dev.json": content})
    data = load_recipe("cmrc2018", tmp_path)
    assert (len(data.train), len(data.dev)) == (1, 2)
    assert "train.json: 1 questions were left out for that" in data.notes


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(BertError, match=r"no train\.tsv, .* SST-2/, glue/SST"):
        load_recipe("sst2", tmp_path)
    put(tmp_path, {"train.tsv": TEXTS["sst2"][1]})
    with pytest.raises(BertError, match=r"has no dev\.tsv"):
        load_recipe("sst2", tmp_path)
    with pytest.raises(BertError, match="no folder"):
        load_recipe("sst2", tmp_path / "gone")


def test_an_unknown_recipe_lists_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(BertError, match=r'"sst".*chnsenticorp.*sst2'):
        load_recipe("sst", tmp_path)


def test_settings_are_the_papers() -> None:
    squad2, swag, mnli = (RECIPES[name] for name in ("squad2", "swag", "mnli"))
    assert (squad2.batch_size, squad2.epochs, squad2.max_length) == (48, 2, 384)
    assert (swag.batch_size, swag.learning_rate) == (16, 2e-5)
    assert (mnli.batch_size, mnli.epochs) == (32, 3)
    assert mnli.learning_rate_grid == (5e-5, 4e-5, 3e-5, 2e-5)
    assert all(
        r.learning_rate in r.learning_rate_grid for r in RECIPES.values()
    )


COUNTS = {
    "glue": [
        ("sst2", 67_349, 872, 0),
        ("cola", 8_551, 1_043, 0),
        ("mrpc", 3_668, 408, 1_725),
        ("rte", 2_490, 277, 0),
        ("stsb", 5_749, 1_500, 0),
    ],
    "imdb": [("imdb", 25_000, 25_000, 0)],
    "conll2003": [("conll2003", 14_041, 3_250, 3_453)],
    "squad": [("squad", 14_348, 10_570, 0), ("squad2", 7_216, 4_657, 0)],
    "dream": [("dream", 6_116, 2_040, 2_041)],
    "codah": [("codah", 1_665, 556, 555)],
    "cmrc2018": [("cmrc2018", 10_142, 3_219, 0)],
    "chnsenticorp": [("chnsenticorp", 9_600, 1_200, 1_200)],
    "msra_ner": [("msra", 50_658, 4_631, 0)],
}


@pytest.mark.slow
@pytest.mark.parametrize("archive", COUNTS)
def test_real_files_hold_as_many_examples_as_published(
    data_dir: Path, tmp_path: Path, archive: str
) -> None:
    path = data_dir / f"{archive}.tar.xz"
    if not path.exists():
        pytest.skip(f"needs real data: {path.name}")
    with tarfile.open(path) as packed:
        packed.extractall(tmp_path, filter="data")
    for name, *expected in COUNTS[archive]:
        data = load_recipe(name, tmp_path)
        counts = [len(p or ()) for p in (data.train, data.dev, data.test)]
        assert counts == expected, name
