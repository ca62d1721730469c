"""Text that needs no download: prose that ships with Python, and some ours."""

from importlib import import_module


def builtin_documents() -> list[str]:
    """Returns the topics of Python's own manual, one document each.

    About 465 kB of English prose in some 79 documents.
    """
    topics: dict[str, str] = import_module("pydoc_data.topics").topics
    return [topics[name] for name in sorted(topics)]


def builtin_chinese_documents() -> list[str]:
    """Returns a few short Chinese documents, written for this project."""
    return list(_CHINESE)


_CHINESE = (
    """语言模型读很多文字，学会猜出被遮住的词。
它不需要人来标注，文字本身就是答案。
读得越多，猜得越准。""",
    """一个词可以拆成几个小块，小块再拼成没见过的词。
汉字每个自成一块，标点也自成一块。
词表里没有的字，只能记作未知。""",
    """今天早上下了小雨，街上的人都打着伞。
孩子们在教室里读书，老师在黑板上写字。
下午天晴了，大家一起去公园散步。""",
    """我喜欢学习人工智能，也喜欢学习数学。
老师说，先把简单的例子算一遍，再写程序。
程序算出的数，要和手算的数一样。""",
)
