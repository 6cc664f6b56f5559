// Package way holds the ways that the benchmark compares: the library's own, the
// transaction without any of them, and what else people use.
//
// All have the same effect, one row in the table effects, whose ref is the key of
// the call: a key that stands in it twice was doubled.
package way

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/migrations"
)

// A Way is a way to make a write, run once or not.
type Way struct {
	// Name is what --ways takes; Title is what stands in the table.
	Name, Title string
	// Batch is how many calls one operation makes.
	Batch int
	// Replays says that a second call with the same key has no effect.
	Replays bool
	// OneKey says that replays of one key by many clients are of interest.
	OneKey bool
	// NeedsRedis and NeedsSecondDatabase say what must be in the Env.
	NeedsRedis, NeedsSecondDatabase bool

	// Prepare creates what Open needs beside the table effects. It is run
	// once, on an empty database of the way's own.
	Prepare func(ctx context.Context, pool *pgxpool.Pool) error
	// Open connects.
	Open func(ctx context.Context, env Env) (*Session, error)
}

// All returns every way, the base of all ratios first.
func All() []Way {
	return []Way{
		Bare(), Textbook(),
		Do(), SQL(), DoSQL(), Gorm(), DoGorm(),
		DoOTel("do-otel", "all", 1), DoOTel("do-otel-tenth", "a tenth", 0.1), DoOTel("do-otel-metrics", "none", 0),
		DoLookFirst(), DoStatement(), DoTx(), DoBatch(),
		External(), ExternalAccept(),
		River(), RiverJob(), DBOSOnePool(), DBOSTwoPools(), DBOSStep(), Redis(),
	}
}

// Base is the name of the way to which all others are compared.
const Base = "bare"

// Choose returns the ways of the given names, in the order of All, and the base
// whether it is named or not. No names mean all.
func Choose(names []string) ([]Way, error) {
	all := All()
	known := make([]string, 0, len(all))
	for _, w := range all {
		known = append(known, w.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no way %q; choose from %s", name, strings.Join(known, ", "))
		}
	}
	if len(names) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(all, func(w Way) bool { return w.Name != Base && !slices.Contains(names, w.Name) }), nil
}

// An Env is what a way is run on.
type Env struct {
	// Postgres is the URL of the way's database, and SecondPostgres that of
	// another one on the same server for ways that keep their records apart.
	Postgres, SecondPostgres string
	// Redis is the address of a Redis server, empty where there is none.
	Redis string
	// Clients is how many call at the same time: a pool has that many
	// connections and two to spare.
	Clients int
	// DialRedis replaces how Redis is connected to. Nil means net.Dialer.
	DialRedis func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Effects creates the table that all ways write to. It has no index of its own:
// the smaller the effect, the more of the cost is the way's.
const Effects = `CREATE TABLE effects (id int GENERATED ALWAYS AS IDENTITY, ref text NOT NULL)`

// effect is the effect of every way.
const effect = `INSERT INTO effects (ref) VALUES ($1) RETURNING id`

// Scope and Tool name the call for those ways that ask for it.
const (
	Scope = "acme"
	Tool  = "book"
)

// args are the arguments of a call, for those ways that look at them.
type args struct {
	Ref string `json:"ref"`
}

// row is what a call returns.
type row struct {
	ID int `json:"id"`
}

func insert(ctx context.Context, tx pgx.Tx, ref string) (r row, err error) {
	err = tx.QueryRow(ctx, effect, ref).Scan(&r.ID)
	return r, err
}

// createRecords creates the tables of the library.
func createRecords(ctx context.Context, pool *pgxpool.Pool) error { return CreateRecords(ctx, pool) }

// CreateRecords creates the tables of the library in the first schema of the search path.
func CreateRecords(ctx context.Context, db interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}) error {
	sql, err := migrations.SQL()
	if err != nil {
		return err
	}
	if _, err := db.Exec(ctx, sql); err != nil {
		return fmt.Errorf("creating tool_dedup: %w", err)
	}
	return nil
}
