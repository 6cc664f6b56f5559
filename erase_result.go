package dedup

// EraseResult counts the work of a [Deduper.Erase].
type EraseResult struct {
	// Records counts the records that lost their answer. Effects counts the effects outside the
	// database that lost what is stored of them.
	Records, Effects int64
	// Unaudited counts the records without a line in the audit, because the table tool_dedup_audit
	// is missing.
	Unaudited int64
	// Reasons counts the earlier lines of the audit that lost their reason.
	Reasons int64
}
