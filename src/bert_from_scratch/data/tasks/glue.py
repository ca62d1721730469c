"""The nine tasks of GLUE, in the official files."""

from dataclasses import replace

from bert_from_scratch.data.tasks.recipe import Recipe, TaskFiles
from bert_from_scratch.data.tasks.recipe_readers import text_reader
from bert_from_scratch.data.tasks.tables import TextColumns

# 论文 4.1 节：批 32、三轮，学习率在开发集上从四个里挑
RATES = (5e-5, 4e-5, 3e-5, 2e-5)


def _files(name: str) -> TaskFiles:
    # GLUE 的 test.tsv 没有标签，不读
    return TaskFiles((name, f"glue/{name}"), ("train.tsv",), ("dev.tsv",))


def _recipe(
    name: str,
    title: str,
    folder: str,
    columns: TextColumns,
    metric: str = "accuracy",
) -> Recipe:
    return Recipe(
        name=name,
        title=title,
        task="classify",
        metric=metric,
        files=_files(folder),
        read=text_reader(columns, "tsv"),
        learning_rate_grid=RATES,
    )


_PAIR = TextColumns("sentence1", "sentence2", "label")
_QUESTIONS = TextColumns("question1", "question2", "is_duplicate")
_GOLD = TextColumns("sentence1", "sentence2", "gold_label")
_SST2 = _recipe(
    "sst2",
    "SST-2: sentiment of film reviews",
    "SST-2",
    TextColumns("sentence", None, "label"),
)
_COLA = _recipe(
    "cola",
    "CoLA: is it an acceptable sentence?",
    "CoLA",
    # CoLA 没有表头，第 2 列是给人看的星号
    TextColumns(3, None, 1),
    "matthews",
)
_RTE = _recipe("rte", "RTE: does A entail B?", "RTE", _PAIR)
_WNLI = _recipe("wnli", "WNLI: what does the pronoun mean?", "WNLI", _PAIR)
_QNLI = _recipe(
    "qnli",
    "QNLI: does the sentence answer the question?",
    "QNLI",
    TextColumns("question", "sentence", "label"),
)
_MRPC = replace(
    _recipe(
        "mrpc",
        "MRPC: do two sentences say the same?",
        "MRPC",
        TextColumns("#1 String", "#2 String", "Quality"),
        "f1",
    ),
    files=replace(
        _files("MRPC"),
        train=("train.tsv", "msr_paraphrase_train.txt"),
        dev=("dev.tsv", "msr_paraphrase_test.txt"),
        test=("test_labelled.txt", "msr_paraphrase_test.txt"),
    ),
)
_STSB = replace(
    _recipe(
        "stsb",
        "STS-B: how similar are two sentences, 0 to 5?",
        "STS-B",
        TextColumns("sentence1", "sentence2", "score"),
        "spearman",
    ),
    task="regress",
)
_QQP = replace(
    _recipe(
        "qqp",
        "QQP: do two questions ask the same?",
        "QQP",
        _QUESTIONS,
        "f1",
    ),
    # 官方训练文件有几行残缺
    read=text_reader(
        _QUESTIONS,
        "tsv",
        skip_damaged=True,
    ),
)
_MNLI = replace(
    _recipe(
        "mnli",
        "MNLI: entailment, contradiction or neither",
        "MNLI",
        _GOLD,
    ),
    files=replace(
        _files("MNLI"),
        dev=("dev_matched.tsv",),
        extra={"mismatched": ("dev_mismatched.tsv",)},
    ),
    # "-" 表示五个标注者没有多数意见
    read=text_reader(
        _GOLD,
        "tsv",
        no_gold=("-", ""),
    ),
)

GLUE = (_SST2, _MRPC, _COLA, _RTE, _STSB, _MNLI, _QQP, _QNLI, _WNLI)
