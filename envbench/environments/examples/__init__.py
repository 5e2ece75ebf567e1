"""Two complete environments, each in two versions, with tasks and scripted policies.

- `refund_desk`: state in Python objects; nested, asynchronous and typed tools, step rewards.
- `stockroom`: a real SQLite database behind the tools, with an audit of every change.

`scripted.run_all` runs all of it into one store.
"""
