package mixed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/chaos/lab"
)

// fate is what becomes of an effect that is a function.
type fate int

const (
	fine fate = iota
	fails
	panics
	conflicts // once: the next try is fine
)

var errEffect = errors.New("the effect failed")

// plannedPanic is raised by effects, and is no defect.
type plannedPanic struct{}

// draw is one call, or one batch of calls, with everything that is drawn for it.
type draw struct {
	way   int    // of ways
	name  string // of the client and the way
	by    *client
	keys  []string
	calls []int64 // their numbers
	call  dedup.Call
	sleep float64 // seconds that an effect takes
	fate  fate
	limit time.Duration // until the context ends
	abort bool          // DoTx: the caller rolls back
}

// draw draws the next call. house is the client of every second call, so that twins
// meet in one process as well as in several.
func (s *storm) draw(rng *rand.Rand, house *client, round int) *draw {
	d := &draw{way: rng.IntN(len(ways)), by: house, limit: patience}
	if rng.IntN(2) == 0 {
		d.by = s.clients[rng.IntN(len(s.clients))]
	}
	d.name = d.by.name + " " + ways[d.way].name
	many := 1
	if ways[d.way].many {
		many = 1 + rng.IntN(keys-1)
	}
	for _, key := range rng.Perm(keys)[:many] {
		d.keys = append(d.keys, fmt.Sprintf("%d-%d", round, key))
		d.calls = append(d.calls, s.calls.Add(1))
	}
	d.call = dedup.Call{Scope: "chaos", Tool: "effect", LookFirst: rng.IntN(4) == 0}
	d.call.Retention = s.retention(rng)
	if rng.IntN(4) == 0 {
		d.call.MaxWait = []time.Duration{-1, 3 * time.Millisecond, 50 * time.Millisecond}[rng.IntN(3)]
	}
	if rng.IntN(4) == 0 {
		d.sleep = rng.Float64() * longestEffect.Seconds()
	}
	if rng.IntN(8) == 0 {
		d.limit = time.Duration(rng.Int64N(int64(longestPatience)))
	}
	if rng.IntN(8) == 0 {
		d.fate = fate(1 + rng.IntN(3))
	}
	d.abort = rng.IntN(8) == 0
	return d
}

// retention draws how long a record lives. Most are forgotten at once when they have
// expired. Some stay as tombstones, shortly or until Reset: a statement may refuse to
// be sent whole where its record is forgotten soon.
func (s *storm) retention(rng *rand.Rand) dedup.Retention {
	r := dedup.Retention{Result: s.shortest + time.Duration(rng.Int64N(int64(retentionSpan))), Tombstone: -1}
	switch rng.IntN(6) {
	case 0:
		r.Tombstone = time.Duration(1 + rng.Int64N(int64(retentionSpan)))
	case 1:
		r.Tombstone = 2 * time.Hour
	}
	return r
}

// ways are the four ways to call.
var ways = []struct {
	name string
	many bool // it takes several calls
}{
	{"Do", false}, {"DoTx", false}, {"DoStatement", false}, {"DoBatch", true},
}

// via makes a drawn call in its way and notes the answers.
func (s *storm) via(ctx context.Context, d *draw, b *books, began time.Time) error {
	return []func(context.Context, *storm, *draw, *books, time.Time) error{
		viaDo, viaTx, viaStatement, viaBatch,
	}[d.way](ctx, s, d, b, began)
}

// make makes a drawn call and notes what came of it.
func (s *storm) make(ctx context.Context, d *draw, b *books) {
	b.begun(d)
	began, err := now(ctx, s.db)
	if err != nil {
		s.note(d, err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, d.limit)
	defer cancel()
	defer func() {
		switch v := recover().(type) {
		case nil:
		case plannedPanic:
			s.note(d, errEffect)
		default:
			s.panicked(fmt.Errorf("%s panicked: %v\n%s", d.name, v, debug.Stack()))
		}
	}()
	s.note(d, s.via(ctx, d, b, began))
}

func (d *draw) one(i int) dedup.Call {
	call := d.call
	call.Key, call.Args = d.keys[i], d.keys[i]
	return call
}

func (d *draw) statements() []dedup.StatementCall {
	calls := make([]dedup.StatementCall, len(d.keys))
	for i := range calls {
		calls[i] = dedup.StatementCall{Call: d.one(i), Statement: dedup.SQL(effectSQL, d.keys[i], d.calls[i], d.sleep)}
	}
	return calls
}

func (d *draw) effect(ctx context.Context, tx pgx.Tx) (a lab.Answer, err error) {
	if err = tx.QueryRow(ctx, effectSQL, d.keys[0], d.calls[0], d.sleep).Scan(&a.Run); err != nil {
		return a, err
	}
	switch d.fate {
	case fails:
		return a, errEffect
	case panics:
		panic(plannedPanic{})
	case conflicts:
		d.fate = fine
		_, err = tx.Exec(ctx, `DO $$ BEGIN RAISE 'again' USING ERRCODE = '40001'; END $$`)
	}
	return a, err
}

// told makes an answer of a result.
func (s *storm) told(d *draw, i int, r dedup.Result[lab.Answer], b *books, began time.Time) {
	s.answers.Add(1)
	if r.Replayed {
		s.replays.Add(1)
	}
	b.answered(told{
		key: d.keys[i], call: d.calls[i], run: r.Value.Run, created: r.CreatedAt, replayed: r.Replayed,
		began: began, way: d.name,
	})
}

func viaDo(ctx context.Context, s *storm, d *draw, b *books, began time.Time) error {
	r, err := dedup.Do(ctx, d.by.d, d.one(0), d.effect)
	if err == nil {
		s.told(d, 0, r, b, began)
	}
	return err
}

func viaStatement(ctx context.Context, s *storm, d *draw, b *books, began time.Time) error {
	c := d.statements()[0]
	r, err := dedup.DoStatement[lab.Answer](ctx, d.by.d, c.Call, c.Statement)
	if err == nil {
		s.told(d, 0, r, b, began)
	}
	return err
}

// viaTx is DoTx in a transaction that the caller rolls back now and then. Its answer
// counts when the COMMIT has been answered.
func viaTx(ctx context.Context, s *storm, d *draw, b *books, began time.Time) error {
	tx, err := d.by.d.Pool().BeginTx(ctx, pgx.TxOptions{IsoLevel: d.by.d.Options().Isolation})
	if err != nil {
		return callersOwn{err}
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		_ = tx.Rollback(ctx)
	}()
	r, err := dedup.DoTx(ctx, d.by.d, tx, d.one(0), d.effect)
	switch {
	case err != nil && tx.Conn().IsClosed():
		return callersOwn{err}
	case err != nil:
		return err
	case s.bug == answersRolledBack:
		s.told(d, 0, r, b, began)
		return nil
	case d.abort:
		return errEffect
	}
	if err := tx.Commit(ctx); err != nil {
		return callersOwn{err}
	}
	s.told(d, 0, r, b, began)
	return nil
}

// callersOwn is an error of the caller's own BEGIN or COMMIT, or of its connection.
type callersOwn struct{ error }

func viaBatch(ctx context.Context, s *storm, d *draw, b *books, began time.Time) error {
	var errs []error
	for o := range dedup.DoBatch[lab.Answer](ctx, d.by.d, slices.Values(d.statements()), nil) {
		switch {
		case o.Err != nil:
			errs = append(errs, o.Err)
		default:
			s.told(d, o.Index, o.Result, b, began)
		}
	}
	for _, err := range errs[:max(len(errs)-1, 0)] {
		s.note(d, err)
	}
	if len(errs) > 0 {
		return errs[len(errs)-1]
	}
	return nil
}
