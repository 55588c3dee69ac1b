"""Do ledger, cluster and nodes tell the same story?"""
