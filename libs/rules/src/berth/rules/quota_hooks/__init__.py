"""What plug-ins may say about quotas: what they are asked, what they are shown, and which pods they are asked about at
once (docs/quota-hooks.md)."""
