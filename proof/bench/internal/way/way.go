// Package way holds the ways that the benchmark compares: the library's own, the
// transaction without any of them, and what else people use.
//
// All have the same effect, one row in the table effects, whose ref is the key of
// the call: a key that stands in it twice was doubled.
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

// A Way is a way to make a write, run once or not.
type Way struct {
	// Name is what --ways takes; Title is what stands in the table.
	Name, Title string
	// Batch is how many calls one operation makes.
	Batch int
	// Replays says that a second call with the same key has no effect.
	Replays bool
	// NeedsRedis and Databases say what must be in the Env.
	NeedsRedis bool
	Databases  int
	// Prepare creates what the way needs beside the table effects. It is run
	// once, on an empty database of the way's own.
	Prepare func(ctx context.Context, pool *pgxpool.Pool) error

	connect connect
}

// Base is the name of the way to which all others are compared.
const Base = "bare"

// All returns every way, the base of all ratios first.
func All() []Way {
	ways := []Way{
		{Name: Base, Title: "bare transaction", connect: bare},
		{Name: "textbook", Title: "textbook pattern", Replays: true, Prepare: createTextbook, connect: textbook},
		{Name: "do", Title: "dedup.Do", Replays: true, Prepare: CreateRecords, connect: library(do)},
		{Name: "sql", Title: "sql.Tx", connect: bareSQL},
		{Name: "do-sql", Title: "dedup.Do, sql.Tx", Replays: true, Prepare: CreateRecords, connect: library(doSQL)},
		{Name: "gorm", Title: "gorm", connect: bareGorm},
		{Name: "do-gorm", Title: "dedup.Do, gorm", Replays: true, Prepare: CreateRecords, connect: doGorm},
		{Name: "do-otel", Title: "dedup.Do, OTel, all sampled", Replays: true, Prepare: CreateRecords, connect: doOTel(1)},
		{Name: "do-otel-tenth", Title: "dedup.Do, OTel, a tenth sampled", Replays: true, Prepare: CreateRecords, connect: doOTel(0.1)},
		{Name: "do-otel-metrics", Title: "dedup.Do, OTel, none sampled", Replays: true, Prepare: CreateRecords, connect: doOTel(0)},
		{Name: "look-first", Title: "dedup.Do, LookFirst", Replays: true, Prepare: CreateRecords, connect: library(doLookFirst)},
		{Name: "statement", Title: "dedup.DoStatement", Replays: true, Prepare: CreateRecords, connect: library(doStatement)},
		{Name: "dotx", Title: "dedup.DoTx", Replays: true, Prepare: CreateRecords, connect: library(doTx)},
		{Name: "batch", Title: "dedup.DoBatch of 100", Batch: 100, Replays: true, Prepare: CreateRecords, connect: library(doBatch)},
		{Name: "external", Title: "external.Do", Replays: true, Prepare: CreateRecords, connect: externalDo},
		{Name: "accept", Title: "external.Accept", Prepare: CreateRecords, connect: externalAccept},
		{Name: "river", Title: "River, unique job", Replays: true, Prepare: createJobs, connect: riverUnique},
		{Name: "river-job", Title: "River, job", Prepare: createJobs, connect: riverJob},
		{Name: "dbos", Title: "DBOS, one pool", Replays: true, connect: dbosTransaction},
		{Name: "dbos2", Title: "DBOS, two pools", Replays: true, Databases: 2, connect: dbosTransaction},
		{Name: "dbos-step", Title: "DBOS, one step", Replays: true, connect: dbosStep},
		{Name: "redis", Title: "Redis lock and result", Replays: true, NeedsRedis: true, connect: redisLock},
	}
	for i := range ways {
		ways[i].Batch, ways[i].Databases = max(ways[i].Batch, 1), max(ways[i].Databases, 1)
	}
	return ways
}

// Named returns the way of the name, and an empty one where there is none.
func Named(name string) (w Way) {
	for _, w := range All() {
		if w.Name == name {
			return w
		}
	}
	return w
}

// Choose returns the ways of the given names, in the order of All, and the base
// whether it is named or not. No names mean all.
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

func insert(ctx context.Context, tx interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, ref string) (r row, err error) {
	err = tx.QueryRow(ctx, effect, ref).Scan(&r.ID)
	return r, err
}

// bare is the transaction that the effect needs anyway, without any protection:
// what no way that calls back can beat.
func bare(_ context.Context, s *Session) (caller, error) {
	return func(ctx context.Context, keys []string) error {
		return pgx.BeginFunc(ctx, s.pool(), func(tx pgx.Tx) error {
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
