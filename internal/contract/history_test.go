package contract_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestHistory makes calls of a few keys in every way, one after the other, and between them Reset,
// Sweep, open transactions of a caller, and jumps of the clock. All of it is random. Each answer
// must be the model's, and in the end the effects too.
func TestHistory(t *testing.T) {
	t.Parallel()
	histories(t, 150, shortBatchWays())
}

// TestLongHistory goes on for longer, in all exec modes and at all isolation levels.
func TestLongHistory(t *testing.T) {
	t.Parallel()
	ways := append(batchWays(),
		batchWay{profile: profile{order: lockFirst, isolation: pgx.RepeatableRead}},
		batchWay{profile: profile{order: claimFirst, isolation: pgx.Serializable}},
		batchWay{profile: profile{isolation: pgx.ReadCommitted, engine: onPlayedCitus}},
		batchWay{profile: profile{order: claimFirst, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeSimpleProtocol}},
		batchWay{profile: profile{order: lockFirst, isolation: pgx.ReadCommitted, way: viaSQL}})
	histories(t, 600, ways)
}

func TestLongHistoryThroughPgBouncer(t *testing.T) {
	t.Parallel()
	histories(t, 300, throughBouncer(t))
}

func TestCitusHistory(t *testing.T) {
	t.Parallel()
	histories(t, 150, []batchWay{{profile: profile{engine: onCitus, isolation: pgx.ReadCommitted}}})
}

func histories(t *testing.T, steps int, ways []batchWay) {
	t.Helper()
	for _, w := range ways {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			h := newHistory(t, w, rand.Uint64())
			for range steps {
				h.steps[h.rng.IntN(len(h.steps))]()
			}
			h.end()
		})
	}
}

const (
	historyKeys = 5
	spoilt      = `WITH e AS (` + effectSQL + `) SELECT id, title FROM e WHERE `
)

// behaviour is what an effect does. The model decides which of its errors are recorded.
type behaviour struct {
	name, sql string
	onError   func(error) error
	err       error // nil: it succeeds, perhaps in a later run
	final     bool  // its error is a refusal
	storable  bool  // its error is a refusal where errors are stored
	// then is what only a function can do behind the statement.
	then func(ctx context.Context, tx pgx.Tx) error
}

// errAny stands for the error of a constraint.
var errAny = errors.New("any")

var behaviours = []behaviour{
	{name: "succeeds", sql: effectSQL},
	{name: "succeeds", sql: effectSQL},
	{name: "succeeds", sql: effectSQL},
	{name: "meets a fault that passes", sql: spoilt + `CASE WHEN random() < 0.2 THEN fail('40001') = 0 ELSE true END`, onError: dedup.Final},
	{name: "violates a constraint", sql: spoilt + `fail('23514') = 0`, err: errAny, storable: true},
	{name: "finds no row", sql: spoilt + `false`, err: sql.ErrNoRows, storable: true},
	{name: "refuses", sql: spoilt + `fail('22012') = 0`, onError: func(error) error { return dedup.Final(errPaper) }, err: errPaper, final: true},
	{name: "refuses for now", sql: spoilt + `fail('22012') = 0`, onError: func(error) error { return dedup.NotFinal(errPaper) }, err: errPaper},
}

var functions = []behaviour{
	{name: "fails behind its effect", sql: effectSQL, err: errPaper, storable: true, then: func(context.Context, pgx.Tx) error { return errPaper }},
	{name: "refuses behind its effect", sql: effectSQL, err: errPaper, final: true, then: func(context.Context, pgx.Tx) error { return dedup.Final(errPaper) }},
}

// commits commits the transaction inside the effect.
var commits = behaviour{name: "commits", sql: effectSQL, err: dedup.ErrBroken, then: func(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Conn().Exec(ctx, "COMMIT")
	return err
}}

// record is a record in the model.
type record struct {
	outcome  dedup.State
	otherArg bool
	value    ticket
	message  string
	created  time.Time
	age      time.Duration
	swept    bool
}

// life is the state of one key in the model.
type life struct {
	record *record
	runs   []int // whose effects are committed
}

type model map[string]life

// history is a model, and the database that it is a model of.
type history struct {
	*fixture
	t     *testing.T
	ctx   context.Context
	rng   *rand.Rand
	steps []func()
	kept  dedup.Retention
	peers []*dedup.Deduper
	model model
	said  []string

	// held is a key whose call waits for holder's COMMIT. pending is the record that holder made.
	held    string
	holder  pgx.Tx
	pending life
}

func newHistory(t *testing.T, w batchWay, seed uint64) *history {
	t.Helper()
	ctx, f := w.setup(t, &dedup.Options{Retry: quickRetry})
	h := &history{fixture: f, t: t, ctx: ctx, rng: rand.New(rand.NewPCG(seed, 0)), kept: f.d.Options().Retention, model: model{}}
	h.peers = []*dedup.Deduper{f.d, f.peer(t)}
	h.steps = []func(){h.do, h.do, h.statement, h.statement, h.tx, h.tx, h.batch, h.batch, h.batch, h.pass, h.pass, h.reset, h.reset, h.sweep, h.lookup, h.hold, h.hold}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d, the last of %d steps:\n%s", seed, len(h.said), strings.Join(h.said[max(0, len(h.said)-30):], "\n"))
		}
	})
	return h
}

func (h *history) say(format string, args ...any) {
	h.said = append(h.said, fmt.Sprintf(format, args...))
}

func (h *history) key() string { return fmt.Sprint("key ", h.rng.IntN(historyKeys)) }

func (h *history) by() *dedup.Deduper { return h.peers[h.rng.IntN(len(h.peers))] }

// drawn is a call with an effect that is a statement.
type drawn struct {
	dedup.StatementCall
	behaviour
	otherArg bool
	run      int // of the last run of an effect that is a function
}

func (d *drawn) String() string {
	return fmt.Sprintf("%s %s, other argument %t, stored %t, looks %t", d.Call.Key, d.name, d.otherArg, d.Call.StoreErrors, d.Call.LookFirst)
}

func (h *history) draw() *drawn {
	d := &drawn{otherArg: h.rng.IntN(8) == 0}
	d.Call = call(h.key())
	d.behaves(behaviours[h.rng.IntN(len(behaviours))])
	if h.profile.engine == onCitus { // shards do not have the test's functions
		d.behaves(behaviours[0])
	}
	if d.otherArg {
		d.Call.Args = map[string]any{"title": "coffee machine on fire"}
	}
	d.Call.LookFirst, d.Call.StoreErrors = h.rng.IntN(3) == 0, h.rng.IntN(4) == 0
	if d.Call.Key == h.held {
		d.Call.MaxWait = -1
	}
	return d
}

func (d *drawn) behaves(b behaviour) {
	d.behaviour = b
	d.Statement = dedup.Statement{SQL: b.sql, Args: []any{d.Call.Key}, OnError: b.onError}
}

// drawFunction draws a call whose effect is a function.
func (h *history) drawFunction() *drawn {
	d := h.draw()
	if h.rng.IntN(4) == 0 {
		d.behaves(functions[h.rng.IntN(len(functions))])
	}
	return d
}

func (h *history) several(most int, draw func() *drawn) []*drawn {
	all := make([]*drawn, 1+h.rng.IntN(most))
	for i := range all {
		all[i] = draw()
	}
	return all
}

// effect is the statement as a function.
func (d *drawn) effect(ctx context.Context, tx pgx.Tx) (ticket, error) {
	made, err := effectOf(d.StatementCall)(ctx, tx)
	d.run = made.ID
	switch {
	case err != nil && d.onError != nil:
		err = d.onError(err)
	case err == nil && d.then != nil:
		err = d.then(ctx, tx)
	}
	return made, err
}

func (h *history) do() {
	d := h.drawFunction()
	if h.rng.IntN(10) == 0 {
		d.behaves(commits)
	}
	h.say("Do: %s", d)
	got, err := dedup.Do(h.ctx, h.by(), d.Call, h.profile.through(d.effect))
	h.judge(h.model, d, got, err)
}

func (h *history) statement() {
	d := h.draw()
	h.say("DoStatement: %s", d)
	got, err := dedup.DoStatement[ticket](h.ctx, h.by(), d.Call, d.Statement)
	h.judge(h.model, d, got, err)
}

// tx makes several calls in a transaction, which is committed or rolled back.
func (h *history) tx() {
	all, by, commit := h.several(3, h.drawFunction), h.by(), h.rng.IntN(3) > 0
	for restart := true; restart; {
		after := model{}
		for key, l := range h.model {
			after[key] = life{l.record, slices.Clone(l.runs)}
		}
		tx := h.begin(h.t, h.ctx)
		restart = false
		for _, d := range all {
			h.say("DoTx, commit %t: %s", commit, d)
			got, err := h.doTx(h.ctx, by, tx, d.Call, d.effect)
			if restart = isRestart(err); restart {
				break
			}
			h.judge(after, d, got, err)
		}
		if restart || !commit {
			require.NoError(h.t, tx.Rollback(h.ctx))
			continue
		}
		requireUsable(h.t, h.ctx, tx)
		require.NoError(h.t, tx.Commit(h.ctx))
		h.model = after
	}
}

func (h *history) batch() {
	all, size := h.several(6, h.draw), 1+h.rng.IntN(7)
	var calls []dedup.StatementCall
	for _, d := range all {
		h.say("DoBatch of %d by %d: %s", len(all), size, d)
		calls = append(calls, d.StatementCall)
	}
	var told, want dedup.BatchData
	i, parts := 0, 0
	for out := range dedup.DoBatch[ticket](h.ctx, h.by(), slices.Values(calls), &dedup.BatchOptions{Size: size, Progress: func(p dedup.BatchData) { told, parts = p, parts+1 }}) {
		require.Equal(h.t, i, out.Index)
		require.Equal(h.t, calls[i].Call, out.Call)
		refused := h.judge(h.model, all[i], out.Result, out.Err)
		switch answered := out.Err == nil || refused; {
		case answered && out.Result.Replayed:
			want.Replayed++
		case answered:
			want.Executed++
		}
		if out.Err != nil {
			want.Failed++
		}
		i++
	}
	require.Equal(h.t, len(calls), i)
	require.Equal(h.t, (i+size-1)/size, parts)
	require.Positive(h.t, told.Duration)
	require.Equal(h.t, []int64{int64(i), want.Executed, want.Replayed, want.Failed}, []int64{told.Calls, told.Executed, told.Replayed, told.Failed})
}

// judge requires the model's answer to a call, and has the model go on.
func (h *history) judge(m model, d *drawn, got dedup.Result[ticket], err error) (refused bool) {
	t, key := h.t, d.Call.Key
	t.Helper()
	l := m[key]
	if h.forgotten(l.record) {
		l.record = nil
	}
	r := l.record
	var refusal *dedup.RefusedError
	var known *dedup.Error
	require.Equal(t, r != nil && key != h.held, got.Replayed, "%s: %v", d, err)
	switch {
	case key == h.held:
		require.ErrorIs(t, err, dedup.ErrInFlight)
		return false
	case r != nil && r.outcome == dedup.StateBroken:
		require.ErrorIs(t, err, dedup.ErrBroken)
	case r != nil && r.otherArg != d.otherArg:
		require.ErrorIs(t, err, dedup.ErrKeyReused)
		require.ErrorAs(t, err, &known)
		require.True(t, r.created.Equal(known.CreatedAt))
		if !r.swept {
			require.Equal(t, []string{"title"}, known.Changed)
		}
	case r != nil && r.age >= h.kept.Result:
		require.ErrorIs(t, err, dedup.ErrExpired)
		require.ErrorAs(t, err, &known)
		require.True(t, r.created.Equal(known.CreatedAt))
		require.Equal(t, h.kept.Result, known.ExpiredAt.Sub(known.CreatedAt))
		require.Equal(t, h.kept.Tombstone, known.ForgetAt.Sub(known.ExpiredAt))
		require.False(t, dedup.IsRetryable(err))
		require.NotContains(t, err.Error(), key)
	case r != nil && r.outcome == dedup.StateRefused:
		require.ErrorAs(t, err, &refusal, "%s", d)
		require.True(t, refusal.Replayed)
		require.Equal(t, r.message, refusal.Message)
		require.True(t, r.created.Equal(refusal.CreatedAt))
		return true
	case r != nil:
		require.NoError(t, err, "%s", d)
		require.Equal(t, r.value, got.Value)
		require.True(t, r.created.Equal(got.CreatedAt))
		require.Equal(t, h.kept.Result, got.ExpiresAt.Sub(got.CreatedAt))
	case d.err == nil:
		require.NoError(t, err, "%s", d)
		require.Equal(t, key, got.Value.Title)
		l.record = &record{outcome: dedup.StateDone, otherArg: d.otherArg, value: got.Value, created: got.CreatedAt}
		l.runs = append(l.runs, got.Value.ID)
	case d.err == dedup.ErrBroken:
		require.ErrorIs(t, err, dedup.ErrBroken)
		l.record = &record{outcome: dedup.StateBroken}
		l.runs = append(l.runs, d.run)
	case d.final || d.storable && d.Call.StoreErrors:
		require.ErrorAs(t, err, &refusal, "%s", d)
		require.False(t, refusal.Replayed)
		l.record = &record{outcome: dedup.StateRefused, otherArg: d.otherArg, message: refusal.Message, created: refusal.CreatedAt}
		refused = true
	default:
		require.NotErrorIs(t, err, dedup.ErrRefused)
		if d.err == errAny {
			requireState(t, err, "23514")
		} else {
			require.ErrorIs(t, err, d.err)
		}
		return false // also what may be forgotten is still there
	}
	m[key] = l
	return refused
}

// forgotten is true of a record that may be forgotten.
func (h *history) forgotten(r *record) bool {
	return r != nil && r.age >= h.kept.Result+h.kept.Tombstone
}

// pass has time pass for a record: a part of what its result is kept, or all of it, or until it
// may be forgotten.
func (h *history) pass() {
	key := h.key()
	r := h.model[key].record
	if r == nil {
		return
	}
	by := []time.Duration{h.kept.Result * 2 / 5, h.kept.Result + time.Minute, h.kept.Result + h.kept.Tombstone + time.Minute}[h.rng.IntN(3)]
	h.say("%s passes for %s", by, key)
	h.age(h.t, key, fmt.Sprint(int(by.Seconds()), " seconds"))
	older := *r
	older.age += by
	older.created = r.created.Add(-by)
	h.model[key] = life{&older, h.model[key].runs}
}

func (h *history) reset() {
	key := h.key()
	for i := range historyKeys { // no record is one that may be forgotten for long
		if other := fmt.Sprint("key ", i); h.forgotten(h.model[other].record) && h.rng.IntN(2) == 0 {
			key = other
		}
	}
	h.say("Reset %s", key)
	freed, err := h.by().Reset(h.ctx, "acme", "create_ticket", key, dedup.ChangeOptions{Reason: "drawn"})
	if key == h.held {
		require.ErrorIs(h.t, err, dedup.ErrInFlight)
		return
	}
	require.NoError(h.t, err)
	l := h.model[key]
	require.Equal(h.t, l.record != nil, freed)
	h.model[key] = life{nil, l.runs}
}

func (h *history) sweep() {
	h.say("Sweep")
	var want dedup.SweepResult
	for key, l := range h.model {
		switch r := l.record; {
		case r == nil:
		case h.forgotten(r):
			want.Forgotten++
			h.model[key] = life{nil, l.runs}
		case r.age >= h.kept.Result && !r.swept && r.outcome != dedup.StateBroken:
			want.Expired++
			swept := *r
			swept.swept = true
			h.model[key] = life{&swept, l.runs}
		}
	}
	got, err := h.by().Sweep(h.ctx, &dedup.SweepOptions{BatchSize: 1 + h.rng.IntN(3), Rest: -1})
	require.NoError(h.t, err)
	require.Equal(h.t, []int64{want.Expired, want.Forgotten}, []int64{got.Expired, got.Forgotten})
}

func (h *history) lookup() {
	for i := range historyKeys {
		key := fmt.Sprint("key ", i)
		h.say("Lookup %s", key)
		got, err := h.by().Lookup(h.ctx, "acme", "create_ticket", key)
		require.NoError(h.t, err)
		r := h.model[key].record
		switch {
		case key == h.held:
			require.Equal(h.t, dedup.StateInFlight, got.State)
		case r == nil || h.forgotten(r):
			require.Equal(h.t, dedup.StateNotFound, got.State)
		case r.outcome != dedup.StateBroken && r.age >= h.kept.Result:
			require.Equal(h.t, dedup.StateExpired, got.State)
			require.Empty(h.t, got.Result)
		default:
			require.Equal(h.t, r.outcome, got.State)
			require.False(h.t, got.Now.Before(got.CreatedAt), "by the database's clock")
			if r.outcome == dedup.StateDone {
				require.JSONEq(h.t, fmt.Sprintf(`{"id":%d,"title":%q}`, r.value.ID, key), string(got.Result))
			}
		}
	}
}

// hold starts a call that stays in flight in another transaction, or ends that transaction.
func (h *history) hold() {
	if h.holder != nil {
		commit := h.rng.IntN(2) == 0
		h.say("%s is no longer held, commit %t", h.held, commit)
		if commit {
			require.NoError(h.t, h.holder.Commit(h.ctx))
			h.model[h.held] = h.pending
		} else {
			require.NoError(h.t, h.holder.Rollback(h.ctx))
		}
		h.held, h.holder = "", nil
		return
	}
	key := h.key()
	if h.model[key].record != nil || !h.profile.fresh() { // the server may abort it, or others beside it
		return
	}
	h.say("%s is held", key)
	d := &drawn{StatementCall: single(key)}
	if h.rng.IntN(3) == 0 { // a refusal that is not committed
		d.behaves(functions[1])
	}
	h.holder = h.begin(h.t, h.ctx)
	got, err := h.doTx(h.ctx, h.by(), h.holder, d.Call, d.effect)
	after := model{key: {nil, slices.Clone(h.model[key].runs)}}
	h.judge(after, d, got, err)
	h.held, h.pending = key, after[key]
}

// end requires the effects and records of the model.
func (h *history) end() {
	if h.holder != nil {
		h.hold()
	}
	h.lookup()
	for key, l := range h.model {
		got := scalar[[]int](h.t, h.bundle, `SELECT COALESCE(array_agg(run ORDER BY run), '{}') FROM effects WHERE ref = $1`, key)
		require.Equal(h.t, slices.Sorted(slices.Values(l.runs)), append([]int(nil), got...), key)
	}
}
