package dedup

import "fmt"

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

// UnresolvedError is the error of a [Deduper.Erase] that found effects outside the database
// without an answer. Nothing was erased.
type UnresolvedError struct {
	// Parked counts the effects that need an operator, because they may have happened, or happened
	// twice. `dedup parked` lists them, and `dedup resolve` decides them.
	Parked int64
	// Open counts the others, which run or wait for another attempt. `dedup parked --open` lists
	// them. They end by themselves, or by `dedup resolve`.
	Open int64
}

// Error implements error.
func (e *UnresolvedError) Error() string {
	return fmt.Sprintf("dedup: nothing was erased, because effects outside the database have no answer: %d parked, %d open; resolve them first (see `dedup parked`, `dedup parked --open` and `dedup resolve`)",
		e.Parked, e.Open)
}
