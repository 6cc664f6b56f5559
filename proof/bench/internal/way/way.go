// Package way holds the ways that the benchmark compares: the library's own, the plain transaction,
// and common alternatives.
//
// All have the same effect, one row in the table effects. Its ref is the key of the call: a key
// with two rows was doubled.
package way

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/migrations"
)

// A Way is a way to make a write, protected or not.
type Way struct {
	// Name is the way's name in --ways, Title its name in the table.
	Name, Title string
	// Batch is the number of calls of one operation.
	Batch int
	// Replays is true if a second call with the same key has no effect.
	Replays bool
	// NeedsRedis is true if the Env must have a Redis.
	NeedsRedis bool
	// Prepare creates the way's own tables. It runs once, on an empty database.
	Prepare func(ctx context.Context, pool *pgxpool.Pool) error

	connect connect
}

// Base is the name of the way to which the others are compared.
const Base = "bare"

// All returns every way, the base of all ratios first.
func All() []Way {
	ways := []Way{
		{Name: Base, Title: "bare transaction", connect: bare},
		{Name: "textbook", Title: "textbook pattern", Replays: true, Prepare: createTextbook, connect: textbook},
		{Name: "do", Title: "dedup.Do", Replays: true, Prepare: CreateRecords, connect: library(do)},
		{Name: "sql", Title: "sql.Tx", connect: bareSQL},
		{Name: "do-sql", Title: "dedup.Do, sql.Tx", Replays: true, Prepare: CreateRecords, connect: library(doSQL)},
		{Name: "do-gorm", Title: "dedup.Do, gorm", Replays: true, Prepare: CreateRecords, connect: doGorm},
		{Name: "do-otel", Title: "dedup.Do, OTel, all sampled", Replays: true, Prepare: CreateRecords, connect: doOTel(1)},
		{Name: "do-otel-metrics", Title: "dedup.Do, OTel, none sampled", Replays: true, Prepare: CreateRecords, connect: doOTel(0)},
		{Name: "look-first", Title: "dedup.Do, LookFirst", Replays: true, Prepare: CreateRecords, connect: library(doLookFirst)},
		{Name: "statement", Title: "dedup.DoStatement", Replays: true, Prepare: CreateRecords, connect: library(doStatement)},
		{Name: "begin-func", Title: "DoTx, Deduper.BeginFunc", Replays: true, Prepare: CreateRecords, connect: library(doTxInBeginFunc)},
		{Name: "batch", Title: "dedup.DoBatch of 100", Batch: 100, Replays: true, Prepare: CreateRecords, connect: library(doBatch)},
		{Name: "external", Title: "external.Do", Replays: true, Prepare: CreateRecords, connect: externalDo},
		{Name: "accept", Title: "external.Accept", Prepare: CreateRecords, connect: externalAccept},
		{Name: "river", Title: "River, unique job", Replays: true, Prepare: createJobs, connect: riverUnique},
		{Name: "dbos", Title: "DBOS, one pool", Replays: true, connect: dbosTransaction},
		{Name: "dbos-step", Title: "DBOS, one step", Replays: true, connect: dbosStep},
		{Name: "redis", Title: "Redis lock and result", Replays: true, NeedsRedis: true, connect: redisLock},
	}
	for i := range ways {
		ways[i].Batch = max(ways[i].Batch, 1)
	}
	return ways
}

// Named returns the way with the name, or an empty one.
func Named(name string) (w Way) {
	for _, w := range All() {
		if w.Name == name {
			return w
		}
	}
	return w
}

// Choose returns the ways with the given names and the base, in the order of All. No names mean
// all.
func Choose(names []string) ([]Way, error) {
	all := All()
	var known []string
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

// Effects creates the table that all ways write to. It has no index: the smaller the effect, the
// more of the cost is the way's.
const Effects = `CREATE TABLE effects (id int GENERATED ALWAYS AS IDENTITY, ref text NOT NULL)`

// effect is the effect of every way.
const effect = `INSERT INTO effects (ref) VALUES ($1) RETURNING id`

// Scope and Tool name the call for the ways that need it.
const (
	Scope = "acme"
	Tool  = "book"
)

// args are the arguments of a call, for the ways that need them.
type args struct {
	Ref string `json:"ref"`
}

// row is the result of a call.
type row struct {
	ID int `json:"id"`
}

func insert(ctx context.Context, tx interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, ref string) (r row, err error) {
	err = tx.QueryRow(ctx, effect, ref).Scan(&r.ID)
	return r, err
}

// bare is the effect's transaction without any protection. No way with a function as its effect can
// be faster.
func bare(_ context.Context, s *Session) (caller, error) {
	return func(ctx context.Context, keys []string) error {
		return pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
			_, err := insert(ctx, tx, keys[0])
			return err
		})
	}, nil
}

// CreateRecords creates the tables of the library in the first schema of the search path.
func CreateRecords(ctx context.Context, pool *pgxpool.Pool) error {
	sql, err := migrations.SQL()
	if err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, sql); err != nil {
		return fmt.Errorf("creating tool_dedup: %w", err)
	}
	return nil
}
