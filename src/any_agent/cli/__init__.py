"""The command line `any-agent`: one file a command, no logic of its own."""
