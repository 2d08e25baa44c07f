"""`python -m any_agent` is the command `any-agent`."""

from __future__ import annotations

from any_agent.cli.main import main

if __name__ == "__main__":
    main()
