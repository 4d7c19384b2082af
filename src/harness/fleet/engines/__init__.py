"""What starts `harness fleet work` for a case: one file per engine. Retries are the fleet's decision, never theirs."""
