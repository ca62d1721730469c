"""Known tasks beyond GLUE: choice, reviews, entities and questions."""

from bert_from_scratch.data.tasks.choices import CODAH, SWAG
from bert_from_scratch.data.tasks.recipe import Recipe, TaskFiles
from bert_from_scratch.data.tasks.recipe_readers import (
    choice_reader,
    read_question_file,
    read_tag_file,
    text_reader,
)
from bert_from_scratch.data.tasks.tables import TextColumns

# 论文附录 A.3：多数任务都好用的范围
RATES = (5e-5, 3e-5, 2e-5)

CHOICES = (
    Recipe(
        name="swag",
        title="SWAG: which ending fits?",
        task="choose",
        metric="accuracy",
        # 官方的 test.csv 没有答案，不读
        files=TaskFiles(("swag", "data"), ("train.csv",), ("val.csv",)),
        read=choice_reader(SWAG),
        batch_size=16,
    ),
    Recipe(
        name="codah",
        title="CODAH: which ending makes sense?",
        task="choose",
        metric="accuracy",
        files=TaskFiles(
            ("cv_split/fold_0", "codah/cv_split/fold_0", "codah"),
            ("train.tsv",),
            ("dev.tsv",),
            ("test.tsv",),
            # 没有交叉验证目录时退回到整个文件
            undivided=("full_data.tsv",),
        ),
        read=choice_reader(CODAH),
        batch_size=16,
        learning_rate_grid=RATES,
    ),
    Recipe(
        name="dream",
        title="DREAM: questions about a dialogue",
        task="choose",
        metric="accuracy",
        files=TaskFiles(
            ("dream", "data"), ("train.json",), ("dev.json",), ("test.json",)
        ),
        read=choice_reader(),
        batch_size=16,
        learning_rate_grid=RATES,
        max_length=512,
    ),
)

REVIEWS = (
    Recipe(
        name="imdb",
        title="IMDb: sentiment of long film reviews",
        task="classify",
        metric="accuracy",
        files=TaskFiles(
            ("aclImdb", "imdb/aclImdb", "imdb"),
            ("train",),
            ("dev", "test"),
            ("test",),
        ),
        # 影评很长，结论常在末尾，所以长度取到模型的上限
        read=text_reader(file_format="folder"),
        learning_rate_grid=RATES,
        max_length=512,
    ),
    Recipe(
        name="chnsenticorp",
        title="ChnSentiCorp: sentiment of Chinese reviews",
        task="classify",
        metric="accuracy",
        files=TaskFiles(
            ("chnsenticorp", "ChnSentiCorp"),
            ("train.tsv",),
            ("dev.tsv",),
            ("test.tsv",),
        ),
        read=text_reader(TextColumns("text_a", None, "label"), "tsv"),
        learning_rate_grid=RATES,
        max_length=256,
        language="zh",
    ),
)

ENTITIES = (
    Recipe(
        name="conll2003",
        title="CoNLL-2003: persons, places, organisations in English news",
        task="tag",
        metric="entity_f1",
        files=TaskFiles(
            ("conll2003",),
            ("train.txt",),
            ("valid.txt", "dev.txt"),
            ("test.txt",),
        ),
        read=read_tag_file,
        learning_rate=5e-5,
        learning_rate_grid=RATES,
        epochs=4,
        max_length=512,
        # 论文 5.3 节：尽量给出句子所在文档的上下文
        document_context=True,
        cased=True,
    ),
    Recipe(
        name="msra",
        title="MSRA: persons, places, organisations in Chinese news",
        task="tag",
        metric="entity_f1",
        files=TaskFiles(
            ("msra_ner", "msra"),
            ("train.txt", "train.tsv"),
            # 官方只分训练和测试；自己另分了 dev 就用它
            ("dev.txt", "dev.tsv", "test.txt", "test.tsv"),
            ("test.txt", "test.tsv"),
        ),
        read=read_tag_file,
        learning_rate=3e-5,
        learning_rate_grid=RATES,
        max_length=256,
        language="zh",
    ),
)

QUESTIONS = (
    Recipe(
        name="squad",
        title="SQuAD 1.1: the answer is a span of the text",
        task="answer",
        metric="f1",
        files=TaskFiles(
            ("squad",),
            # 先认完整的官方文件，再认它的一部分
            ("train-v1.1.json", "train-v1.1*.json"),
            ("dev-v1.1.json",),
        ),
        read=read_question_file,
        learning_rate=5e-5,
        learning_rate_grid=(5e-5,),
        max_length=384,
    ),
    Recipe(
        name="squad2",
        title="SQuAD 2.0: as 1.1, and some questions have no answer",
        task="answer",
        metric="f1",
        files=TaskFiles(
            ("squad2", "squad"),
            ("train-v2.0.json", "*v2.0-train-part.json"),
            ("dev-v2.0.json", "*v2.0-dev-part.json"),
        ),
        read=read_question_file,
        batch_size=48,
        learning_rate=5e-5,
        learning_rate_grid=(5e-5,),
        epochs=2,
        max_length=384,
        has_null=True,
    ),
    Recipe(
        name="cmrc2018",
        title="CMRC 2018: the answer is a span of a Chinese text",
        task="answer",
        metric="f1",
        files=TaskFiles(
            ("cmrc2018", "squad-style-data"),
            ("train.json", "cmrc2018_train.json"),
            ("dev.json", "cmrc2018_dev.json"),
        ),
        read=read_question_file,
        learning_rate=3e-5,
        learning_rate_grid=RATES,
        epochs=2,
        max_length=512,
        language="zh",
    ),
)
