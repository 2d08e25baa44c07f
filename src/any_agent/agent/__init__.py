"""The agent: options, and the loop that asks a model, runs its tools and asks again."""
