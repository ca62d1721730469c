"""Text that needs no download: prose that ships with Python, and some ours."""

from importlib import import_module


def builtin_documents() -> list[str]:
    """Returns the topics of Python's own manual, one document each.

    About 465 kB of English prose in some 79 documents.
    """
    topics: dict[str, str] = import_module("pydoc_data.topics").topics
    return [topics[name] for name in sorted(topics)]


def simple_sentences() -> list[str]:
    """Returns short sentences over the 88 words of the MiniBert tutorial.

    Everybody eats what can be eaten and reads what can be read, so that a
    model can learn from them which words go together.
    """
    sentences = [
        f"the {who} {does} the {what}"
        for does, things in _WHAT_PEOPLE_DO.items()
        for what in things.split()
        for who in _PEOPLE.split()
    ]
    return sentences + [line for line in _OTHERS.split("\n") if line]


_PEOPLE = "man woman boy girl child"
_WHAT_PEOPLE_DO = {
    "eats": "apple bread fish meat",
    "drinks": "water milk juice tea coffee",
    "reads": "book paper",
    "plays with": "ball doll",
    "sits on": "chair bench bed",
    "walks to": "park school store river",
    "watches": "moon bird sea fire",
}
_OTHERS = """
a cat sleeps on the mat
the cat chases a mouse
the cat drinks the milk
the cat hides under the bed
a cat jumps over the wall
a dog barks at the door
the dog digs in the garden
the dog runs by the river
a dog catches the ball
the dog sleeps by the fire
a bird sings from the branch
the bird flies over the house
a bird sits in the tree
the bird eats a seed
a fish swims in the river
the fish swims in the sea
the fish hides under a rock
a mouse runs under the table
the mouse hides in the wall
an apple sits on the table
the sun rises in the east
the sun sets in the west
the sun shines on the hill
the moon shines at night
the stars shine at night
the stars hide by the moon
the clouds float in the sky
the clouds float over the hill
a child jumps in the grass
the girl sits by the window
the boy runs to the door
"""


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
