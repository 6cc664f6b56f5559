package dedup

import "time"

// Retention says how long a call is remembered, in two stages counted from the
// moment its record is written, by the database's clock. During Result it is
// replayed. Then its result may be dropped, and during Tombstone the identity
// still answers [ErrExpired] and never runs a second time. After that the
// identity may be used anew.
//
// A call whose COMMIT was not answered looks for its record. Finding none proves that
// nothing was committed, but only while the record could not yet be forgotten. So a call
// that has not found out when half of Result and Tombstone together is over gives up
// with [ErrOutcomeUnknown] and does not run again. Choose both together longer than
// twice the time that an outage may last. DoStatement and DoBatch take the three
// round trips of Do where both together are less than an hour: a statement that is
// delayed on its way must find the record of the attempt that came after it.
//
// The presets follow what payment and agent platforms publish: an interactive
// turn is retried within the hour, a task within the day, a batch within the
// week, money within the month.
type Retention struct {
	// Result is how long the result is replayed. Zero means the Deduper's
	// Options.Retention, and there 24 hours. At least 1 ms, at most 100 years.
	Result time.Duration
	// Tombstone is how long the identity is refused after that. Zero means
	// 30 days, or the Deduper's where Result is zero too; negative means not at
	// all. At most 100 years.
	Tombstone time.Duration
}

// InteractiveRetention keeps results for 1 hour, then tombstones for 30 days.
func InteractiveRetention() Retention { return Retention{Result: time.Hour} }

// TaskRetention keeps results for 24 hours, then tombstones for 30 days. It is
// the default.
func TaskRetention() Retention { return Retention{Result: 24 * time.Hour} }

// BatchRetention keeps results for 7 days, then tombstones for 30 days.
func BatchRetention() Retention { return Retention{Result: 7 * 24 * time.Hour} }

// FinancialRetention keeps results for 30 days, then tombstones for 30 days.
func FinancialRetention() Retention { return Retention{Result: 30 * 24 * time.Hour} }

const (
	defaultTombstone = 30 * 24 * time.Hour
	minRetention     = time.Millisecond
	maxRetention     = 100 * 365 * 24 * time.Hour
)

// Or returns r with what it leaves out filled in from fallback, as a call's
// Retention is filled in from its Deduper's.
func (r Retention) Or(fallback Retention) Retention {
	if r.Result == 0 {
		r.Result = fallback.Result
		if r.Tombstone == 0 {
			r.Tombstone = fallback.Tombstone
		}
	}
	if r.Tombstone == 0 {
		r.Tombstone = defaultTombstone
	}
	return r
}

// resolve is Or, and reports what is out of range.
func (r Retention) resolve(fallback Retention) (Retention, string) {
	r = r.Or(fallback)
	switch {
	case r.Result < minRetention:
		return r, "Result must be at least 1ms"
	case r.Result > maxRetention || r.Tombstone > maxRetention:
		return r, "Result and Tombstone must be at most 100 years"
	}
	return r, ""
}

// keep and forget are the two ages, in Postgres' resolution.
func (r Retention) keep() time.Duration { return r.Result.Truncate(time.Microsecond) }
func (r Retention) forget() time.Duration {
	return (r.Result + max(r.Tombstone, 0)).Truncate(time.Microsecond)
}
