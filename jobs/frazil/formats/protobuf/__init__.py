"""Protobuf payloads by the `.proto` text (or serialized descriptor) that the registry has."""
