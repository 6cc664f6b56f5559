package scale

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/way"
)

// ticket is what the measured tool answers: a reference and a line of text, as
// most write tools do.
type ticket struct {
	ID    int64  `json:"id"`
	Title string `json:"title"`
}

type ticketArgs struct {
	Title    string `json:"title"`
	Priority string `json:"priority"`
}

const title = "printer on fire"

// ticketCall is the measured call. Its record has the size of a usual one.
func ticketCall(key string) dedup.Call {
	return dedup.Call{Scope: "acme", Tool: "create_ticket", Key: key, Args: ticketArgs{Title: title, Priority: "high"}}
}

// tool is the measured tool on one schema's tables.
type tool struct {
	d                *dedup.Deduper
	pool             *pgxpool.Pool
	schema           string
	records, effects string // the tables, quoted
}

func newTool(pool *pgxpool.Pool, opts dedup.Options) (*tool, error) {
	d, err := dedup.New(pool, &opts)
	quoted := pgx.Identifier{opts.Schema}.Sanitize()
	return &tool{d: d, pool: pool, schema: opts.Schema, records: quoted + ".tool_dedup", effects: quoted + ".effects"}, err
}

// newField makes a new schema with the table of records and a table for effects to
// write to, and the tool on it. One that is there is dropped.
func newField(ctx context.Context, pool *pgxpool.Pool, opts dedup.Options) (*tool, error) {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		schema := pgx.Identifier{opts.Schema}.Sanitize()
		_, err := tx.Exec(ctx, fmt.Sprintf(`
			DROP SCHEMA IF EXISTS %[1]s CASCADE;
			CREATE SCHEMA %[1]s;
			SET LOCAL search_path = %[1]s;
			%[2]s`, schema, way.Effects))
		if err != nil {
			return err
		}
		return way.CreateRecords(ctx, tx)
	})
	if err != nil {
		return nil, fmt.Errorf("making schema %s: %w", opts.Schema, err)
	}
	return newTool(pool, opts)
}

// call runs the tool once for the key.
func (t *tool) call(ctx context.Context, key string) (dedup.Result[ticket], error) {
	return dedup.Do(ctx, t.d, ticketCall(key), func(ctx context.Context, tx pgx.Tx) (ticket, error) { return t.effect(ctx, tx, key) })
}

func (t *tool) effect(ctx context.Context, tx pgx.Tx, ref string) (ticket, error) {
	made := ticket{Title: title}
	err := tx.QueryRow(ctx, "INSERT INTO "+t.effects+" (ref) VALUES ($1) RETURNING id", ref).Scan(&made.ID)
	return made, err
}

// first makes first calls.
func (t *tool) first(keys KeyKind) measure.Op {
	return func(ctx context.Context, _ int) (int, error) {
		_, err := t.call(ctx, keys.newKey(time.Now())) //dedupvet:ignore a measured call is made once
		return 1, err
	}
}

// bare makes the same effects in transactions without records: what calls are measured
// against.
func (t *tool) bare(keys KeyKind) measure.Op {
	return func(ctx context.Context, _ int) (int, error) {
		return 1, pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error {
			_, err := t.effect(ctx, tx, keys.newKey(time.Now())) //dedupvet:ignore a measured call is made once
			return err
		})
	}
}

// warmCalls of a client prepare its statements.
const warmCalls = 5

// drive makes so many calls.
func drive(ctx context.Context, clients, calls int, call measure.Op) error {
	_, err := measure.Load{Clients: clients, MinOps: calls}.Run(ctx, call)
	return err
}

// KeyKind is where in the primary key's index a new record falls.
type KeyKind string

const (
	OrderedKeys KeyKind = "ordered" // as of dedup.NewKey: beside the last one
	RandomKeys  KeyKind = "random"  // as of any hash: anywhere
)

// newKey returns a key of the kind that was made at the given time, in the form
// of dedup.NewKey, which makes its keys at the present only.
func (k KeyKind) newKey(at time.Time) string {
	random := make([]byte, 16)
	_, _ = rand.Read(random) // never fails
	key := base64.RawURLEncoding.EncodeToString(random)
	if k == RandomKeys {
		return key
	}
	timed, err := dedup.TimedKey(at, key) //dedupvet:ignore a measured call is made once
	if err != nil {
		panic(err) // at is a time of this century
	}
	return timed
}

// Sizes are what a schema's table of records takes on disk, in bytes.
type Sizes struct {
	Records    int64 `json:"records"`
	Heap       int64 `json:"heap_bytes"`
	PrimaryKey int64 `json:"primary_key_bytes"`
	DueIndex   int64 `json:"due_index_bytes"`
	Total      int64 `json:"total_bytes"`
}

// sizes also counts the records.
func (t *tool) sizes(ctx context.Context) (s Sizes, err error) {
	err = t.pool.QueryRow(ctx, fmt.Sprintf(`
		SELECT count(*), pg_relation_size('%[1]s'), pg_relation_size('%[1]s_pkey'), pg_relation_size('%[1]s_due')
		  FROM %[1]s`, t.records)).Scan(&s.Records, &s.Heap, &s.PrimaryKey, &s.DueIndex)
	s.Total = s.Heap + s.PrimaryKey + s.DueIndex
	return s, err
}
