"""The Python client of Twinlane: `TwinlaneClient` in client.py, its types in events.py, its exceptions in errors.py."""
