package table

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/wire"
)

// Lookup is what was seen of an identity.
type Lookup struct {
	// Found is true when Record counts.
	Found  bool
	Record Record
	// Forgotten is true when there is a record that may be forgotten. It does not count,
	// and stands in the way until it is deleted.
	Forgotten bool
	// Busy is true when there is no record and a twin is in flight.
	Busy bool
	// At is a time, by the database's clock, at which that was not yet known. It is
	// of Peek with LockFirst, and of Probe.
	At time.Time
	// Hidden is true when a claim met a row that no look-up finds: it was
	// deleted in between, or it cannot be seen at all.
	Hidden bool
}

// see reads a look-up.
func (l *Lookup) see(results *wire.Results) error {
	exists, err := l.Record.read(results)
	l.Forgotten = exists && l.Record.Forgotten()
	l.Found = exists && !l.Forgotten
	return err
}

// Opening is what an attempt found when it began.
type Opening struct {
	Lookup
	// Tx is the transaction that Open began; nil from OpenIn.
	Tx pgx.Tx
	// Started is now() in the transaction, which names it: the record is only
	// written in a transaction with the same.
	Started time.Time
	// Locked is true when the lock is held, or the claim made. Without, a twin may have
	// inserted its record and not committed it yet.
	Locked bool
	// Held is why a record that may be forgotten could not be deleted. Then Busy is
	// true, although no twin is in flight: that would hold the lock.
	Held error
	// Marked is true when OpenIn has set its savepoint.
	Marked bool
}

// Open begins a transaction on a connection and looks, in one pipeline. It returns
// as soon as it is known whether the identity is free; whatever it returns,
// the caller rolls the connection back unless it commits.
func (t *Table) Open(ctx context.Context, on *wire.Conn, e *Entry) (Opening, error) {
	if err := on.Prepare(ctx, t.usual...); err != nil {
		return Opening{}, err
	}
	if t.opts.ClaimFirst {
		return t.openClaim(ctx, on, &t.begin, e)
	}
	return t.openLock(ctx, on, e)
}

// OpenIn is Open inside the caller's transaction, behind a savepoint. It blocks inside
// Postgres until twins are done, for at most limit where that is not 0; there the
// deadlock detector sees it. Busy leaves the transaction to be rolled back to the
// savepoint.
func (t *Table) OpenIn(ctx context.Context, on *wire.Conn, savepoint string, e *Entry, limit time.Duration) (Opening, error) {
	begin := wire.Query{Text: "savepoint " + savepoint}
	if t.opts.ClaimFirst {
		return t.openClaimIn(ctx, on, begin, e, limit)
	}
	return t.openLockIn(ctx, on, begin, e, limit)
}

// FreeIsProof reports whether finding an identity free proves that earlier attempts have
// ended without a record. It does where the look-up is younger than the lock; at stricter
// levels both share one snapshot, which is older.
func (t *Table) FreeIsProof() bool {
	return t.opts.Isolation == pgx.ReadCommitted || t.opts.ClaimFirst
}
