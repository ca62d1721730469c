"""What `bert learn flashcards` and `quiz` say and ask, in two languages."""

import sys
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from datetime import date

from rich.console import Console
from rich.text import Text as StyledText

from bert_from_scratch.learn.cards.content import (
    Card,
    Option,
    Part,
    Question,
    Text,
)
from bert_from_scratch.learn.cards.pages import cite
from bert_from_scratch.learn.cards.progress import PartProgress, Standing
from bert_from_scratch.learn.cards.quiz import OPTION_LETTERS, Score
from bert_from_scratch.learn.cards.schedule import WAITING_DAYS
from bert_from_scratch.learn.language import Language

_YES = {"y", "yes", "是"}
_NO = {"n", "no", "否"}
_STOP = {"q", "quit"}


class Dialogue:
    """Speaks on stdout and listens on stdin; both may be a pipe."""

    def __init__(self, language: Language, *, to_stderr: bool = False) -> None:
        """Starts a dialogue.

        Args:
            language: In which everything is said.
            to_stderr: Whether stdout is kept free for data.
        """
        self.language = language
        self._console = Console(stderr=to_stderr, highlight=False)

    def show_place(
        self, number: int, total: int, item: Card | Question
    ) -> None:
        """Shows how far a session has come, and what is asked now."""
        place = cite(item.section, self.language)
        self._say(f"\n[{number}/{total}] {item.id} · {place}", "dim")

    def ask_card(self, card: Card) -> bool | None:
        """Shows a card; returns whether it was known, None: to stop."""
        self._say(card.front[self.language], "bold")
        line = self._ask(_PHRASES["turn"])
        if line is None or line in _STOP:
            return None
        self._say(card.back[self.language])
        line = self._ask_until(_PHRASES["known"], _YES | _NO)
        return None if line is None else line in _YES

    def ask_question(
        self, question: Question, options: Sequence[Option]
    ) -> Option | None:
        """Asks a question; returns the option chosen, None: to stop."""
        self._say(question.ask[self.language], "bold")
        for letter, option in zip(OPTION_LETTERS, options, strict=True):
            self._say(f"  {letter}) {option.text[self.language]}")
        line = self._ask_until(_PHRASES["choose"], set(OPTION_LETTERS))
        return None if line is None else options[OPTION_LETTERS.index(line)]

    def explain(self, chosen: Option, options: Sequence[Option]) -> None:
        """Says at once whether it was right, and the reason of every option.

        The right one has a tick before it, the chosen one says so.
        """
        verdict = "right" if chosen.is_right else "wrong"
        colour = "green" if chosen.is_right else "red"
        self._say(_PHRASES[verdict][self.language], colour)
        for letter, option in zip(OPTION_LETTERS, options, strict=True):
            sign = "✓" if option.is_right else " "
            # 标记不用颜色：管道里、不要颜色的终端里也要看得见
            mark = f" ← {_PHRASES['chosen'][self.language]}"
            end = mark if option is chosen else ""
            self._say(f"{sign} {letter}) {option.why[self.language]}{end}")

    def sum_up_cards(self, verdicts: Collection[bool]) -> None:
        """Says how a session of cards went."""
        self._phrase("cards", sum(verdicts), len(verdicts))

    def sum_up_quiz(self, total: Score, scores: Mapping[str, Score]) -> None:
        """Says the score of a quiz, in all and by part."""
        self._phrase("score", total.num_right, total.num_answers)
        colon = Text(": ", "：")[self.language]
        for letter, score in scores.items():
            shown = f"{score.num_right}/{score.num_answers}"
            self._say(f"  {letter}{colon}{shown}")

    def say_nothing_due(self, day: date | None) -> None:
        """Says that there is nothing to learn until some day."""
        self._phrase("nothing", day)

    def show_standing(self, part: Part, progress: PartProgress) -> None:
        """Shows how far somebody has come in a part."""
        self._say(f"{part.letter} · {part.title[self.language]}", "bold")
        for kind, standing in (
            ("card_standing", progress.cards),
            ("question_standing", progress.questions),
        ):
            self._say(f"  {self._describe(kind, standing)}")

    def show_boxes(self) -> None:
        """Explains the boxes."""
        days = Text(", ", "、")[self.language].join(map(str, WAITING_DAYS))
        self._phrase("boxes", len(WAITING_DAYS), days)

    def _describe(self, kind: str, standing: Standing) -> str:
        asked = standing.num_right + standing.num_wrong
        return _PHRASES[kind][self.language].format(
            standing.num_items,
            standing.num_due,
            standing.num_new,
            " ".join(map(str, standing.boxes)),
            f"{standing.num_right}/{asked}",
        )

    def _phrase(self, name: str, *values: object) -> None:
        self._say("\n" + _PHRASES[name][self.language].format(*values))

    def _say(self, text: str, style: str = "") -> None:
        # 用 Text 而不用标记：题目里的方括号不能被当作样式吃掉
        wraps = self._console.is_terminal
        self._console.print(StyledText(text, style), soft_wrap=not wraps)

    def _ask_until(self, prompt: Text, allowed: set[str]) -> str | None:
        """Asks until the answer is one of the allowed; None: to stop."""
        while True:
            line = self._ask(prompt)
            if line is None or line in _STOP:
                return None
            if line in allowed:
                return line
            self._say(_PHRASES["again"][self.language])

    def _ask(self, prompt: Text) -> str | None:
        """Returns a line in small letters; None at the end of the input."""
        self._console.print(StyledText(prompt[self.language], "cyan"), end=" ")
        self._console.file.flush()
        data = sys.stdin.buffer.readline() if sys.stdin else b""
        line = data.decode("utf-8", "replace").removeprefix("\ufeff").strip()
        if not (data.endswith(b"\n") and sys.stdin.isatty()):
            # 管道没有回显，Ctrl-D 没有换行：补上，记录才读得懂
            self._say(line)
        # 中文输入法常打出全角字母，ｂ 也算 b
        folded = unicodedata.normalize("NFKC", line).lower()
        return folded if data else None


_PHRASES = {
    "turn": Text("Enter turns the card, q stops:", "回车翻面，q 结束："),
    "known": Text(
        "Did you know it? y: yes, n: not yet, q: stop:",
        "记得吗？y：记得，n：还没有，q：结束：",
    ),
    "choose": Text(
        "Your answer, a to d; q stops:", "你的答案 a 到 d，q 结束："
    ),
    "again": Text(
        "This is none of the answers.", "没有这样的选项，请再答一次。"
    ),
    "right": Text("Right.", "答对了。"),
    "wrong": Text("Wrong.", "答错了。"),
    "chosen": Text("your answer", "你的答案"),
    "cards": Text("Known: {} of {} cards.", "记得 {} 张，共 {} 张。"),
    "score": Text("Right: {} of {}.", "答对 {} 题，共 {} 题。"),
    "nothing": Text(
        "Nothing is due before {}. See the cards anyway: --all.",
        "{} 之前没有到期的卡片。仍想看：--all。",
    ),
    "card_standing": Text(
        "{} cards: {} due, {} new; boxes {}; known {}",
        "{} 张卡片：{} 张到期，{} 张新；各盒 {}；记得 {}",
    ),
    "question_standing": Text(
        "{} questions: {} due, {} new; boxes {}; right {}",
        "{} 道题：{} 道到期，{} 道新；各盒 {}；答对 {}",
    ),
    "boxes": Text(
        "The {} boxes wait {} days. Known: one box up; not known: box 1.",
        "{} 个盒子依次等待 {} 天。记得就升一盒，不记得回到第 1 盒。",
    ),
}
