"""Shared by several views: amounts, calls, approvals, JSON and columns as text, and text that is safe to show."""
