"""The tool of the tasks."""


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
