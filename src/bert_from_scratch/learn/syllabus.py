"""The lessons of the course by name, without the work of computing them."""

from dataclasses import dataclass

from bert_from_scratch.learn.language import Language, speaker

# 轮数照教程；种子任选，取的这个恰好重现教程里的失败
NUM_EPOCHS = 500
SEED = 2
# 两课和目录页说的是同一篇教程：只写一次
TUTORIAL = {
    "en": "a tutorial that builds a simple BERT from scratch, MiniBert",
    "zh": "一篇教程，它从零搭建一个简单的 BERT，取名 MiniBert",
}


@dataclass(frozen=True)
class Topic:
    """One lesson before it is taught.

    Attributes:
        name: What to type after `bert learn`.
        english: Its title and one line on it.
        chinese: The same in Chinese.
    """

    name: str
    english: tuple[str, str]
    chinese: tuple[str, str]

    def title(self, language: Language) -> str:
        """Returns the title."""
        return speaker(language)(self.english[0], self.chinese[0])

    def summary(self, language: Language) -> str:
        """Returns what the lesson is about, in a line."""
        return speaker(language)(self.english[1], self.chinese[1])


TOPICS = (
    Topic(
        "attention",
        (
            "Attention by hand",
            "two words of three numbers, and every matrix from X to Z",
        ),
        ("手算注意力", "两个词、每词三个数，写出从 X 到 Z 的每个矩阵"),
    ),
    Topic(
        "minibert",
        (
            "MiniBert, every gradient by hand",
            "a one-layer BERT in NumPy, checked against autograd and trained",
        ),
        (
            "MiniBert：每个梯度都手写",
            "用 NumPy 写的一层 BERT，与自动求导逐项对照并训练",
        ),
    ),
    Topic(
        "positions",
        (
            "Why words need places",
            "what a model without positions gets wrong, and what else helps",
        ),
        ("词为什么需要位置", "没有位置向量的模型错在哪里，还有什么能补救"),
    ),
    Topic(
        "pipeline",
        (
            "From text to vectors",
            "tokens, three arrays, three embeddings, encoder, outputs",
        ),
        ("从文字到向量", "词元、三个数组、三种嵌入、编码器、输出"),
    ),
    Topic(
        "losses",
        (
            "The two losses",
            "where MLM and NSP come from, and why p - y is all there is to it",
        ),
        ("两个损失", "MLM 与 NSP 的由来，为什么梯度只是 p - y"),
    ),
    Topic(
        "history",
        (
            "Before BERT, and three forms of one stack",
            "bags, CNNs, RNNs, word2vec; causal, masked, sequence to sequence",
        ),
        (
            "BERT 之前，与同一堆栈的三种形式",
            "词袋、CNN、RNN、word2vec；因果、掩码、序列到序列",
        ),
    ),
)


def introduce_tutorial(language: Language) -> str:
    """Returns the sentence that says what a lesson is modelled on."""
    return speaker(language)(
        f"This lesson is modelled on {TUTORIAL['en']}. Where figures of the "
        "tutorial appear, they are quoted as it gives them; all others are "
        "computed here.",
        f"这一课仿照{TUTORIAL['zh']}。教程里的数照原样引用，"
        "其余的数都在这里算出。",
    )
