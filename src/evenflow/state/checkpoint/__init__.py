"""What the blobs of a checkpoint hold: manifests, logs, snapshots of units."""
