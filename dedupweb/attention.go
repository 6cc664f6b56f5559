package dedupweb

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/inspect"
)

const (
	// listed is how many entries a list has at most.
	listed = 100
	// held is how long a call may be in flight, and overdue how long records may be due.
	held    = time.Minute
	overdue = time.Hour
	// searched is how many operations are looked at for those that are on their way or of some
	// scopes, and how many scopes of a visitor for tools.
	searched = 1000
)

// attention is what somebody has to look at. A table may be missing.
type attention struct {
	Broken                       []brokenRecord
	Parked                       []operation
	Open                         []operation // without an answer for more than overdue, and not parked
	Long                         []flying
	Due, Now                     time.Time // Due is zero where the sweep is not behind
	BrokenMissing, ParkedMissing bool
	// More says whether there is more of something than is listed.
	More bool
	// InFlight is what is in flight, for long or not.
	InFlight *inFlight
}

type brokenRecord struct {
	Call call
	inspect.BrokenRecord
}

// kind is one kind of what needs somebody, and how much there is of it.
type kind struct {
	ID, Tone, Text string
	N              int
}

// Kinds are those of which there is something.
func (a *attention) Kinds() []kind {
	late := 0
	if !a.Due.IsZero() {
		late = 1
	}
	all := []kind{{"broken", "bad", "broken", len(a.Broken)}, {"parked", "warn", "parked", len(a.Parked)}, {"open", "warn", "open for long", len(a.Open)}, {"long", "warn", "in flight for long", len(a.Long)}, {"sweep", "warn", "late sweep", late}}
	return slices.DeleteFunc(all, func(k kind) bool { return k.N == 0 })
}

// Count is how much there is of all kinds.
func (a *attention) Count() (n int) {
	for _, k := range a.Kinds() {
		n += k.N
	}
	return n
}

func (c *console) showAttention(v *visit) error {
	a, err := c.readAttention(v.r.Context(), &v.Access)
	if err != nil {
		return err
	}
	return v.page("attention", a)
}

// readAttention reads what needs somebody, as far as it may be seen.
func (c *console) readAttention(ctx context.Context, access *Access) (*attention, error) {
	var a attention
	var err error
	a.BrokenMissing, err = c.read(ctx, func(tx pgx.Tx) error {
		found, err := inspect.Broken(ctx, tx, c.db.Schema, access.Scopes, listed+1)
		a.More = len(found) > listed
		for _, b := range found[:min(len(found), listed)] {
			a.Broken = append(a.Broken, brokenRecord{call{b.Scope, b.Tool, b.Key, access.Keys}, b})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	a.ParkedMissing, err = c.read(ctx, func(tx pgx.Tx) (err error) {
		a.Parked, err = a.readOperations(access, func(limit int) ([]external.Operation, error) {
			return c.tools.ParkedTx(ctx, tx, external.Operation{}, limit)
		})
		if err != nil {
			return err
		}
		a.Open, err = a.readOperations(access, func(limit int) ([]external.Operation, error) {
			return c.tools.OpenTx(ctx, tx, external.Operation{}, overdue, limit)
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	a.InFlight = c.readInFlight(ctx, access)
	for _, f := range a.InFlight.Calls {
		if f.Age >= held && !f.Open {
			a.Long = append(a.Long, f)
		}
	}
	a.More = a.More || a.InFlight.More && len(a.Long) == listed
	if !access.seesAll() {
		return &a, nil
	}
	return &a, c.db.ReadOnly(ctx, func(tx pgx.Tx) (err error) {
		if a.Due, a.Now, err = inspect.DueSince(ctx, tx, c.db.Schema); a.Now.Sub(a.Due) <= overdue {
			a.Due = time.Time{}
		}
		return err
	})
}

// operation is an operation outside of the database. Act says whether the visitor may resolve it.
type operation struct {
	Call call
	external.Operation
	Act bool
}

// readOperations reads the oldest operations that the visitor sees.
func (a *attention) readOperations(access *Access, read func(limit int) ([]external.Operation, error)) (seen []operation, err error) {
	limit := listed + 1
	if !access.seesAll() {
		limit = searched
	}
	ops, err := read(limit)
	for _, op := range ops {
		if access.sees(op.Scope) {
			seen = append(seen, operation{Call: call{op.Scope, op.Tool, op.Key, access.Keys}, Operation: op})
		}
	}
	a.More = a.More || len(ops) == limit || len(seen) > listed
	return seen[:min(len(seen), listed)], err
}
