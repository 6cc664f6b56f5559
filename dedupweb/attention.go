package dedupweb

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/inspect"
)

const (
	// listed is how many entries a list has at most.
	listed = 100
	// held is how long a session may hold a lock, and overdue how long records may be due.
	held    = time.Minute
	overdue = time.Hour
)

// attention is what somebody has to look at.
type attention struct {
	Broken        []brokenRecord
	BrokenMissing bool // its table
	// More says whether there is more of something than is listed.
	More     bool
	Parked   *parked
	Held     []inspect.Session
	Due, Now time.Time // Due is zero where the sweep is not behind
}

type brokenRecord struct {
	Call call
	inspect.BrokenRecord
}

// Nothing reports whether nothing needs anybody.
func (a *attention) Nothing() bool {
	return len(a.Broken) == 0 && len(a.Parked.Operations) == 0 && len(a.Held) == 0 && a.Due.IsZero()
}

func (c *console) showAttention(v *visit) error {
	var a attention
	var err error
	a.BrokenMissing, err = c.read(v, func(tx pgx.Tx) error {
		found, err := inspect.Broken(v.r.Context(), tx, c.db.Schema, v.Scopes, listed+1)
		a.More = len(found) > listed
		for _, b := range found[:min(len(found), listed)] {
			a.Broken = append(a.Broken, brokenRecord{call{b.Scope, b.Tool, b.Key, v.Keys}, b})
		}
		return err
	})
	if err != nil {
		return err
	}
	if a.Parked, err = c.readParked(v, external.Operation{}); err != nil {
		return err
	}
	a.More = a.More || a.Parked.More
	if v.seesAll() {
		if err := c.readServer(v, &a); err != nil {
			return err
		}
	}
	return v.page("attention", &a)
}

// readServer reads what is of no one scope.
func (c *console) readServer(v *visit, a *attention) error {
	return c.db.ReadOnly(v.r.Context(), func(tx pgx.Tx) (err error) {
		if a.Held, err = inspect.Held(v.r.Context(), tx, held, listed+1); err != nil {
			return err
		}
		if len(a.Held) > listed {
			a.Held, a.More = a.Held[:listed], true
		}
		a.Due, a.Now, err = inspect.DueSince(v.r.Context(), tx, c.db.Schema)
		if a.Now.Sub(a.Due) <= overdue {
			a.Due = time.Time{}
		}
		return err
	})
}
