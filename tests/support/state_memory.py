"""A store in memory, and one that counts what is read."""

from evenflow.errors import BlobMissing
from evenflow.state.store.base import Store, checked


class Memory(Store):
    """The plainest store that keeps the laws."""

    def __init__(self):
        self.blobs = {}
        self.reads = []

    def put(self, name, parts):
        self.blobs[checked(name)] = b"".join(bytes(memoryview(part).cast("B")) for part in parts)

    def get(self, name, start=0, length=None):
        self.reads.append((name, start, length))
        if checked(name) not in self.blobs:
            raise BlobMissing(f"there is no blob {name}")
        return memoryview(bytearray(self.blobs[name][start : None if length is None else start + length]))

    def names(self, prefix=""):
        return sorted((name, len(blob)) for name, blob in list(self.blobs.items()) if name.startswith(prefix))

    def delete(self, names):
        for name in names:
            self.blobs.pop(checked(name), None)
