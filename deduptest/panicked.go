package deduptest

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// errBomb is what the effect panics with.
var errBomb = errors.New("deduptest: a panic in the effect, on purpose")

func (sc *scene) panicked() {
	probe, err := dedup.New(sc.v.direct, nil)
	if err != nil {
		sc.out.failf("%v", err)
		return
	}
	b := &bomb{probe: probe}
	s := sc.open(sc.v.tool, b)
	if s == nil {
		return
	}
	b.set(0, false)
	tr := sc.begin("called without a panic, to count the statements of the effect")
	tr.insist(s)
	tr.end()
	statements := b.statements()
	if statements == 0 {
		sc.out.failf("nothing was tested: no statement of an effect was seen. An effect must use the context that it is handed; where the effect is no Go code, turn the scenario off by Options.Without")
	}
	for n := range statements {
		sc.panickedAt(s, b, n+1, "before", false)
		sc.panickedAt(s, b, n+1, "after", true)
	}
}

func (sc *scene) panickedAt(s *stage, b *bomb, n int, when string, after bool) {
	tr := sc.begin("panic %s statement %d of the effect", when, n)
	b.set(n, after)
	_ = tr.call(s)
	if b.went() {
		sc.out.Faults++
	} else {
		tr.problemf("nothing was tested: the effect did not get to that statement")
	}
	tr.insist(s)
	tr.insist(s)
	tr.end()
}

// bomb panics at a statement of an effect. It is a tracer of pgx, and so called on
// the goroutine that runs the effect, beneath the effect's own code: for the
// effect it is as if the statement had panicked.
type bomb struct {
	probe *dedup.Deduper

	mu    sync.Mutex
	at    int  // the number of the statement, from 1; 0 panics nowhere
	after bool // the statement
	seen  int
	spent bool
}

// set arms the bomb for the nth statement from now on.
func (b *bomb) set(n int, after bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at, b.after, b.seen, b.spent = n, after, 0, false
}

func (b *bomb) statements() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen
}

func (b *bomb) went() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spent
}

// statementKey is where a statement's number is kept in its context.
type statementKey struct{}

// begins sees a statement begin. Those that are in no transaction, or end one, are
// not the effect's own but an aside of it on another connection: a panic in the
// middle of pgxpool's own code, where no effect can panic, would leak that one.
func (b *bomb) begins(ctx context.Context, conn *pgx.Conn, sql string) context.Context {
	if conn.PgConn().TxStatus() == idle || endsTransaction(sql) || !b.inEffect(ctx) {
		return ctx
	}
	b.mu.Lock()
	b.seen++
	n := b.seen
	b.mu.Unlock()
	b.blow(n, false)
	return context.WithValue(ctx, statementKey{}, n)
}

func (b *bomb) ends(ctx context.Context) {
	if n, ok := ctx.Value(statementKey{}).(int); ok {
		b.blow(n, true)
	}
}

// idle is the status of a session without a transaction.
const idle = 'I'

// endsTransaction tells the texts with which pgx ends one.
func endsTransaction(sql string) bool { return sql == "commit" || sql == "rollback" }

// blow panics where that is wanted, once.
func (b *bomb) blow(n int, after bool) {
	b.mu.Lock()
	now := n == b.at && after == b.after && !b.spent
	b.spent = b.spent || now
	b.mu.Unlock()
	if now {
		panic(errBomb)
	}
}

// inEffect reports whether a context was handed to an effect. The library keeps that
// to itself, but it refuses a Do inside an effect, before it does anything else;
// and outside of one this Do ends with its context, before it sends anything.
func (b *bomb) inEffect(ctx context.Context) bool {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err := dedup.Do(ended, b.probe, dedup.Call{Scope: "deduptest", Tool: "deduptest", Key: "probe"},
		func(context.Context, pgx.Tx) (struct{}, error) { return struct{}{}, nil })
	var invalid *dedup.InvalidError
	return errors.As(err, &invalid) && invalid.Field == "ctx"
}

// TraceQueryStart implements pgx.QueryTracer.
func (b *bomb) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return b.begins(ctx, conn, data.SQL)
}

// TraceQueryEnd implements pgx.QueryTracer.
func (b *bomb) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) { b.ends(ctx) }

// TraceBatchStart implements pgx.BatchTracer: a batch counts as one statement.
func (b *bomb) TraceBatchStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return b.begins(ctx, conn, "")
}

// TraceBatchQuery implements pgx.BatchTracer.
func (b *bomb) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (b *bomb) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchEndData) { b.ends(ctx) }

// TraceCopyFromStart implements pgx.CopyFromTracer.
func (b *bomb) TraceCopyFromStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	return b.begins(ctx, conn, "")
}

// TraceCopyFromEnd implements pgx.CopyFromTracer.
func (b *bomb) TraceCopyFromEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromEndData) {
	b.ends(ctx)
}
