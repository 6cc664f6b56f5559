package citus

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// client is one process: a pool on one node, with a client of the library for each schema.
type client struct {
	pool     *pgxpool.Pool
	bySchema []*lab.Client
}

// key is one intent of a tenant.
type key struct {
	tenant int
	text   string
}

// delivery is one call, or several that are made at once.
type delivery struct {
	way  lab.Way
	keys []key
	by   *client
}

func (a *arm) client(d *delivery) *lab.Client {
	return d.by.bySchema[d.keys[0].tenant%len(d.by.bySchema)]
}

// jobs are the calls, the answer of each of which is the number of the run that was committed.
func (a *arm) jobs(d *delivery) []lab.Job {
	jobs := make([]lab.Job, len(d.keys))
	for i, k := range d.keys {
		schema := "public"
		if a.bySchema {
			schema = tenant(k.tenant)
		}
		jobs[i] = lab.Job{
			Call: dedup.Call{Scope: tenant(k.tenant), Tool: "effect", Key: k.text, Args: k.text},
			SQL:  `INSERT INTO ` + schema + `.effects (tenant, key, run) VALUES ($1, $2, $3) RETURNING run`,
			Args: []any{tenant(k.tenant), k.text, a.runs.Add(1)},
		}
	}
	return jobs
}

// naively is a transaction that is repeated after any error.
func (a *arm) naively(ctx context.Context, d *delivery) error {
	runs := make([]int64, len(d.keys))
	err := pgx.BeginFunc(ctx, d.by.pool, func(tx pgx.Tx) error {
		for i, j := range a.jobs(d) {
			if err := tx.QueryRow(ctx, j.SQL, j.Args...).Scan(&runs[i]); err != nil {
				return err
			}
		}
		return nil
	})
	for i, k := range d.keys {
		if err == nil {
			a.ledger(k).Answered(k.text, runs[i])
		}
	}
	return err
}

// newWays counts the answers of each way.
func newWays() map[string]*atomic.Int64 {
	counts := map[string]*atomic.Int64{}
	for _, w := range lab.Ways {
		counts[w.Name] = &atomic.Int64{}
	}
	return counts
}
