package table

import (
	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/examiner"
)

// Profile holds the differences between engines for statements on the tables. Packages dedup
// and external only find out the engine and choose its profile.
type Profile struct {
	// Claims is true if an attempt inserts its identity before the effect and completes the row
	// with the COMMIT, instead of taking an advisory lock. The engine may lack advisory locks, or
	// it passes a COMMIT on to other servers, which may commit after the server with the lock.
	Claims bool
	// Spread is true if rows lie on several servers. A wait for a row then happens on another
	// server than the one with the settings and the locks, and a statement without its scopes goes
	// to all servers.
	Spread bool
}

// ProfileOf returns the profile of an engine.
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

// FreeIsProof reports whether an attempt that finds its identity free proves that no earlier
// attempt was committed. A look-up proves it if it is younger than the lock. At stricter levels
// both share one snapshot, which is older. A claim conflicts with everything committed at every
// level.
func (t *Table) FreeIsProof() bool {
	return t.Profile.Claims || t.opts.Isolation == pgx.ReadCommitted
}

// Engine returns the engine of the statements.
func (t *Table) Engine() examiner.Engine { return t.opts.Engine }

// ofScopes returns a condition that is true for every row of a statement, and from which the server
// finds the rows' places.
func (p *Profile) ofScopes(row, scopes string) string {
	if !p.Spread {
		return ""
	}
	return "\n   AND " + row + "scope = ANY (" + scopes + "::text[])"
}
