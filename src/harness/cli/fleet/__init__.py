"""What `harness fleet` does, apart from its options."""
