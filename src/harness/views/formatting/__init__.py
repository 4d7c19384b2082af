"""What several views share: amounts, calls, approvals, JSON and columns as text, and text that is safe to show."""
