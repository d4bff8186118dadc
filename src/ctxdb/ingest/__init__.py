"""The way in: from the bytes of transcripts to rows, for sync, daemon and verify alike."""
