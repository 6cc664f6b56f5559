package table

import (
	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/examiner"
)

// Profile is what differs from one engine to another. Nothing else asks which engine it is.
type Profile struct {
	// Claims is true where an attempt inserts its identity before the effect and completes the row
	// with the COMMIT, in place of taking an advisory lock: where there may be none, or where a
	// COMMIT is passed on to other servers, which may commit after the one with the lock has
	// ended.
	Claims bool
	// Spread is true where rows lie on several servers. Waits for rows then happen on
	// another server than the one that holds the settings and the locks; and a statement
	// that does not say which scopes it is about goes to all servers.
	Spread bool
}

// ProfileOf returns what an engine is known for.
func ProfileOf(engine examiner.Engine) Profile {
	switch engine {
	case examiner.Postgres:
		return Profile{}
	case examiner.Citus:
		return Profile{Claims: true, Spread: true}
	default:
		return Profile{Claims: true}
	}
}

// FreeIsProof reports whether an attempt that finds its identity free has proved that no earlier
// attempt was committed. The look-up must be younger than the lock for that. At stricter levels
// both share one snapshot, which is older. A claim meets whatever is committed at every level.
func (t *Table) FreeIsProof() bool {
	return t.Profile.Claims || t.opts.Isolation == pgx.ReadCommitted
}

// Engine is the engine that the statements are for.
func (t *Table) Engine() examiner.Engine { return t.opts.Engine }

// ofScopes is a condition that holds for every row that a statement is about, and says so in
// a form by which the server finds the rows' places.
func (p *Profile) ofScopes(row, scopes string) string {
	if !p.Spread {
		return ""
	}
	return "\n   AND " + row + "scope = ANY (" + scopes + "::text[])"
}
