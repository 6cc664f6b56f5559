package examiner

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Examination is what was seen of the table before the first effect.
type Examination struct {
	// Problems says in words why the table cannot decide races; none where it can.
	Problems []string
	// Engine is the kind of server.
	Engine Engine
	// Now is the database's clock.
	Now time.Time
}

// Examine looks at the tool_dedup of a schema in one round trip. It finds those problems of
// FindProblems that would let an effect be committed twice, or without its record. It asks
// the catalogues and never the table, so that it cannot fail and abort a caller's transaction.
func Examine(ctx context.Context, conn *pgx.Conn, schema string, claimFirst bool) (Examination, error) {
	cat, err := readDecisive(ctx, conn, schema)
	if err != nil {
		return Examination{}, err
	}
	x := Examination{Engine: cat.Engine, Now: cat.Now}
	for _, p := range cat.decisiveProblems(claimFirst) {
		x.Problems = append(x.Problems, p.What)
	}
	return x, nil
}

// decisiveProblems are those of problems because of which nothing is run. A trigger of
// updates can swallow the record where a claim is completed.
func (c *catalog) decisiveProblems(claimFirst bool) []Problem {
	if nothing := c.noTable(); nothing != nil {
		return nothing
	}
	t := c.dedup()
	found := slices.Concat(t.primaryKeyProblems(dedupTable()), t.crashProblems())
	for _, g := range t.Triggers {
		if g.Before && (g.Inserts || claimFirst && g.Updates) {
			found = append(found, g.problem())
		}
	}
	for _, r := range t.Rules {
		if r.Inserts {
			found = append(found, r.problem())
		}
	}
	return found
}

// Querier is a connection, a pool or a transaction.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// FindProblems finds everything that is wrong with the tables of a schema, or keeps the
// current role from using tool_dedup, in the order in which it is best repaired. It
// takes one round trip, or two where goose's version table or Citus is there as well.
func FindProblems(ctx context.Context, db Querier, schema string) ([]Problem, error) {
	cat, err := readCatalog(ctx, db, schema)
	if err != nil {
		return nil, err
	}
	return cat.problems(), nil
}
