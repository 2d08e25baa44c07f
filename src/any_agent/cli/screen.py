"""Where things are shown: the answer on standard output, all the rest on standard error.

On a terminal the last lines may be live: they are drawn anew as long as they change, and are gone before anything
else is written. Text is written as it comes and never drawn again, so a token costs one write.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from any_agent.cli.clean import cleaned

__all__ = ("Screen",)


class Screen:
    """Standard output and standard error, whether they are one terminal, two files, or a terminal and a file."""

    def __init__(self) -> None:
        colours = None if os.environ.get("NO_COLOR") else "auto"
        self.console = Console(stderr=True, color_system=colours, highlight=False, markup=False, emoji=False)
        self.is_live = self.console.is_terminal and not self.console.is_dumb_terminal
        #: the answer and the rest meet on one terminal
        self._meets = self.console.is_terminal and sys.stdout.isatty()
        self._dim, self._bright = ("\x1b[2m", "\x1b[22m") if self.console.color_system else ("", "")
        self._live: Live | None = None
        self._answer_open = False
        self._thought_open = False

    def answer(self, text: str) -> None:
        """Some more of the answer."""
        if not text:
            return
        self.erase()
        self._end_thought()
        sys.stdout.write(cleaned(text))
        sys.stdout.flush()
        self._answer_open = not text.endswith("\n")

    def end_answer(self) -> None:
        """The answer ends here: so does its line."""
        if self._answer_open:
            self.answer("\n")

    def thought(self, text: str) -> None:
        """Some more of the thoughts."""
        if not self._thought_open:
            self._begin_line()
            text = self._dim + cleaned(text)
            self._thought_open = True
        else:
            text = cleaned(text)
        sys.stderr.write(text)
        sys.stderr.flush()

    def line(self, text: str | Text, style: str = "dim") -> None:
        """A line of its own, which stays; on a terminal it is wrapped between words."""
        self._begin_line()
        line = Text(cleaned(text), style) if isinstance(text, str) else text
        self.console.print(line, soft_wrap=not self.is_live)

    def live(self, lines: Sequence[Text]) -> None:
        """Draw the live lines, each cut at the width of the terminal; they replace those drawn before."""
        if not self.is_live:
            return
        if not lines:
            self.erase()
            return
        if self._live is None:
            self._begin_line()
            self._live = Live(
                console=self.console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        # what does not fit on the screen could not be taken away again
        self._live.update(Group(*lines[-max(1, self.console.height - 2) :]), refresh=True)

    def erase(self) -> None:
        """Take the live lines away."""
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()

    def _begin_line(self) -> None:
        self.erase()
        self._end_thought()
        if self._meets:
            self.end_answer()

    def _end_thought(self) -> None:
        if self._thought_open:
            self._thought_open = False
            sys.stderr.write(f"{self._bright}\n")
            sys.stderr.flush()
