package table

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tooldedup/dedup/internal/wire"
)

// Identity is the primary key of tool_dedup.
type Identity struct {
	Scope, Tool, Key string
}

// LockKey returns the key of the advisory lock of the identity. If two identities, or an identity
// and a lock of the application, have one key, they wait for each other; their answers are not
// affected.
func (id Identity) LockKey(schema string) int64 {
	var buf [512]byte
	b := append(buf[:0], "dedup/lock/v1"...)
	for _, part := range [...]string{schema, id.Scope, id.Tool, id.Key} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// Compare orders identities, so that every transaction takes several of them in the same order.
func (id Identity) Compare(other Identity) int {
	return cmp.Or(strings.Compare(id.Scope, other.Scope), strings.Compare(id.Tool, other.Tool), strings.Compare(id.Key, other.Key))
}

// Problem returns the first name that is invalid and the reason; both are empty if all names are
// valid.
func (id Identity) Problem() (field, problem string) {
	for _, name := range [...]struct{ field, name string }{{"Scope", id.Scope}, {"Tool", id.Tool}, {"Key", id.Key}} {
		if problem := NameProblem(name.field, name.name); problem != "" {
			return name.field, problem
		}
	}
	return "", ""
}

// maxNameLen is the maximum length in bytes of a scope, a tool or a key. Three names of that length
// fit an entry of a Postgres B-tree (2,704 bytes on a page of 8 kB), so that a valid name cannot
// fail there.
const maxNameLen = 255

// NameProblem returns the reason why a name cannot be a Scope, Tool or Key, or "". It accepts 1 to
// maxNameLen bytes of valid UTF-8 without control characters, a subset of the values that Postgres
// can store and compare as text COLLATE "C". Names are compared by bytes: nothing is trimmed,
// folded or normalised, so "é" as one code point and as two are two names. Normalising would merge
// keys that their makers consider different, and would change with each version of Unicode.
func NameProblem(field, name string) string {
	switch {
	case name == "" && field == "Scope":
		return "is empty; give the tenant, client or account that the call belongs to"
	case name == "" && field == "Tool":
		return "is empty; give the tool a stable name of its own"
	case name == "":
		return "is empty; make one where the intent is formed (NewKey, KeyFromToolCall) and send it with every retry"
	case len(name) > maxNameLen:
		return fmt.Sprintf("is %d bytes long, and %d is the most; hash it (KeyFromIntent does)", len(name), maxNameLen)
	}
	for i := 0; i < len(name); {
		r, size := rune(name[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(name[i:])
		}
		if r == utf8.RuneError && size == 1 {
			return fmt.Sprintf("is not valid UTF-8 at byte %d; encode binary names as hex or base64url", i)
		}
		if unicode.IsControl(r) {
			return fmt.Sprintf("has a control character at byte %d; remove it", i)
		}
		i += size
	}
	return ""
}

// Entry is a call's identity with the fields of its record, except for the result.
type Entry struct {
	Identity
	Lock        int64
	Fingerprint [sha256.Size]byte
	ArgDigests  []byte
	// Keep is the time for which the result is replayed, 0 if the answer is not kept. Forget is the
	// time for which the identity is remembered. Both begin when the record is written.
	Keep, Forget time.Duration
}

// Outcome is how a call ended, as its record stores it.
type Outcome string

const (
	Done    Outcome = "done"    // the result is the answer
	Refused Outcome = "refused" // the result is the refusal
	Broken  Outcome = "broken"  // the effect ended its own transaction
	claimed Outcome = "claimed" // a claim, before its COMMIT
)

// Record is a row of tool_dedup without its identity.
type Record struct {
	Fingerprint [sha256.Size]byte
	ArgDigests  []byte
	Outcome     Outcome
	Result      string
	Tombstone   bool // the row has no result: it was dropped, or never kept
	CreatedAt   time.Time
	ExpiresAt   time.Time
	ForgetAt    time.Time
	// SeenAt is the database's clock when the row was read or written. Ages are compared by this
	// clock only.
	SeenAt time.Time
	// SentAt is the time at which the statement that read or wrote the row was sent, by this
	// machine's clock.
	SentAt time.Time

	// keep is ExpiresAt minus CreatedAt of a record that this process writes.
	keep time.Duration
}

// Kept reports whether the answer was to be kept for a time.
func (r *Record) Kept() bool { return r.ExpiresAt.After(r.CreatedAt) }

// KeptUntil returns ExpiresAt, or zero if the answer is not kept.
func (r *Record) KeptUntil() time.Time {
	if !r.Kept() {
		return time.Time{}
	}
	return r.ExpiresAt
}

// IsOf reports whether the record is the one that an attempt sent as written. It is always false
// for an answer that is kept.
func (r *Record) IsOf(written *Record) bool {
	return written.keep < 0 && r.ExpiresAt.Sub(r.CreatedAt) == written.keep
}

// Forgotten reports whether the identity may be used anew.
func (r *Record) Forgotten() bool { return !r.SeenAt.Before(r.ForgetAt) }

// Expired reports whether the result may no longer be replayed.
func (r *Record) Expired() bool { return r.Tombstone || !r.SeenAt.Before(r.ExpiresAt) }

// Erased reports whether an Erasure removed the answer and the fingerprint.
func (r *Record) Erased() bool { return r.Fingerprint == [sha256.Size]byte{} }

// Accepts reports whether a call with this fingerprint may get the answer. An erased record accepts
// all calls, because their answer is ErrExpired.
func (r *Record) Accepts(fingerprint [sha256.Size]byte) bool {
	return r.Fingerprint == fingerprint || r.Erased()
}

// IsBroken reports whether the effect ended its own transaction. A visible claim was committed by
// its own effect.
func (r *Record) IsBroken() bool { return r.Outcome == Broken || r.Outcome == claimed }

// Age returns the time since the record was written.
func (r *Record) Age() time.Duration { return r.SeenAt.Sub(r.CreatedAt) }

// Seen is the result of looking up one identity.
type Seen struct {
	// Found is true if Record is valid. Forgotten is true if there is a forgotten record: it does
	// not count, but conflicts with a new one until it is deleted.
	Found, Forgotten bool
	Record           Record
	// Busy is true if there is no record and a twin is in flight. With Held, another transaction
	// holds a forgotten record, and Held is the error of its DELETE.
	Busy bool
	Held error
	// Hidden is true if a claim conflicts with a row that no look-up finds. The row was deleted in
	// between, or is invisible.
	Hidden bool
	// At is now() in the transaction of the look-up, and identifies that transaction. It is zero
	// outside of one.
	At time.Time

	// The rest is set when a transaction or a savepoint is opened.

	// Tx is the transaction that Open, or OpenIn with begin, began.
	Tx pgx.Tx
	// InSavepoint is true after the savepoint was set.
	InSavepoint bool
	// Fresh is true if every statement of the transaction sees everything committed before it.
	Fresh bool

	// ahead is the number of statements ahead of the one that sets the savepoint.
	ahead int
	// Room for columns.
	locked bool
	locks  int64
	result pgtype.Text
}

// columns returns the destinations of the columns of a look-up.
func (s *Seen) columns() [8]any {
	r := &s.Record
	return [...]any{&r.Fingerprint, &r.ArgDigests, (*string)(&r.Outcome), &s.result, &r.CreatedAt, &r.ExpiresAt, &r.ForgetAt, &r.SeenAt}
}

// readLast reads the reply to a look-up at the end of the pipeline, and closes the pipeline.
func (s *Seen) readLast(p *wire.Pipeline) error {
	s.readRow(p)
	return s.check(p.Close())
}

// readRow reads the reply to a look-up.
func (s *Seen) readRow(p *wire.Pipeline) {
	columns := s.columns()
	s.Found, s.Forgotten, s.Busy = false, false, false
	if p.Scan(columns[:]...) {
		s.fill(p)
	}
}

// fill sets the fields of Seen from the columns of a record.
func (s *Seen) fill(p *wire.Pipeline) {
	s.Record.Result, s.Record.Tombstone, s.Record.SentAt = s.result.String, !s.result.Valid, p.SentAt
	s.Forgotten = s.Record.Forgotten()
	s.Found = !s.Forgotten
}

// check returns an error if the outcome of the record is unknown to this version.
func (s *Seen) check(err error) error {
	switch s.Record.Outcome {
	case Done, Refused, Broken, claimed:
		return err
	}
	if err == nil && (s.Found || s.Forgotten) {
		return fmt.Errorf("dedup: a record has outcome %q; another version of the library wrote it", s.Record.Outcome)
	}
	return err
}

// NewRecord returns the record of an entry that is about to be sent, without the server's times.
//
// A record whose answer is not kept expires up to a second before it is created. That time is
// random, so that it identifies the attempt: if the reply to COMMIT is lost, only the attempt's own
// record proves that the answer in memory is the call's.
func NewRecord(e *Entry, outcome Outcome, result string) Record {
	r := Record{Fingerprint: e.Fingerprint, ArgDigests: e.ArgDigests, Outcome: outcome, Result: result, Tombstone: outcome == Broken, SentAt: time.Now(), keep: e.Keep}
	if e.Keep == 0 {
		r.Tombstone, r.keep = true, -time.Microsecond*time.Duration(1+rand.N(1_000_000))
	}
	return r
}

// written sets the other times of a record that was just written. Postgres added the same ages to
// the same time.
func (r *Record) written(p *wire.Pipeline, e *Entry) {
	r.SeenAt, r.SentAt = r.CreatedAt, p.SentAt
	r.ExpiresAt, r.ForgetAt = r.CreatedAt.Add(r.keep), r.CreatedAt.Add(e.Forget)
}

// ErrSwallowed: the record's statement raised no error and wrote no row. A trigger or rule that
// causes this was added after the table was examined.
var ErrSwallowed = errors.New("dedup: a trigger or rule on tool_dedup swallowed the record")

// QueueRecord queues the statement that writes the record, before the COMMIT, in the transaction
// that began at started. If it cannot write the record it raises, so that the server skips the
// COMMIT. It waits for a twin for up to limit.
func (t *Table) QueueRecord(p *wire.Pipeline, e *Entry, r *Record, started *time.Time, limit time.Duration) {
	var result any
	if text := r.stored(); text != nil {
		result = text
	}
	t.startLimit(p, limit)
	p.Queue(t.insert, &e.Scope, &e.Tool, &e.Key, started, &e.Fingerprint, &e.ArgDigests, (*string)(&r.Outcome), result, &r.keep, &e.Forget)
	t.endLimit(p, limit)
}

// stored returns the text for the column result, nil for NULL.
func (r *Record) stored() *string {
	if r.Tombstone {
		return nil
	}
	return &r.Result
}

// ReadRecord reads the reply to the statement that QueueRecord queued. If it leaves CreatedAt zero,
// the record was swallowed.
func ReadRecord(p *wire.Pipeline, e *Entry, r *Record) {
	if p.Scan(&r.CreatedAt) {
		r.written(p, e)
	}
}

// IsConflict reports whether err means that the record's statement conflicted with a row, or wrote
// nothing.
func IsConflict(err error) bool {
	state := wire.SQLState(err)
	return state == wire.CodeUniqueViolation || state == wire.CodeDivisionByZero
}

// Tripped reports whether the tripwire in the record's statement was touched: it ran in another
// transaction than the one that was begun. The outcome is never NULL otherwise. The table is not
// asked for: it may be a partition. Citus leaves the column out when it passes a worker's error on;
// the message names it in every language.
func Tripped(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == wire.CodeNotNullViolation &&
		(server.ColumnName == "outcome" || server.ColumnName == "" && strings.Contains(server.Message, "outcome"))
}
