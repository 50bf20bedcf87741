"""The mesh's processes. This runs before any of their modules, so before grpc is imported."""

from libs.config.environ import quiet_grpc

quiet_grpc()
