"""The `twinlane` command. This runs before any of its modules, so before grpc is imported."""

from libs.config.environ import quiet_grpc

quiet_grpc()
