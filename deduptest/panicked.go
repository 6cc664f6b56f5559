package deduptest

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/guard"
)

// errBomb is the value of the effect's panic.
var errBomb = errors.New("deduptest: a panic in the effect, on purpose")

func (sc *scene) panicked() {
	b := &bomb{}
	s := sc.open(sc.v.tool, b)
	if s == nil {
		return
	}
	b.set(0)
	tr := sc.begin("called without a panic, to count the statements of the effect")
	tr.callUntilAnswered(s)
	tr.end()
	statements, _ := b.state()
	if statements == 0 {
		sc.out.failf("nothing was tested: no statement of an effect was seen. An effect must use the context that it is handed; where the effect is no Go code, turn the scenario off by Options.Without")
	}
	for n := range statements {
		sc.panickedAt(s, b, n+1)
	}
}

func (sc *scene) panickedAt(s *stage, b *bomb, n int) {
	tr := sc.begin("panic after statement %d of the effect", n)
	b.set(n)
	_ = tr.call(s)
	if _, spent := b.state(); spent {
		sc.out.Faults++
	} else {
		tr.problemf("nothing was tested: the effect did not get to that statement")
	}
	tr.callUntilAnswered(s)
	tr.callUntilAnswered(s)
	tr.end()
}

// bomb panics after a statement of an effect. It is a tracer of pgx, which pgx calls on the
// effect's goroutine, so to the effect the statement itself panics.
type bomb struct {
	mu    sync.Mutex
	at    int // the number of the statement, from 1; 0 means none
	seen  int
	spent bool
}

// set arms the bomb for the nth statement from now on.
func (b *bomb) set(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at, b.seen, b.spent = n, 0, false
}

// state returns the number of statements seen, and whether the bomb has panicked.
func (b *bomb) state() (seen int, spent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen, b.spent
}

// statementKey is the context key of a statement's number.
type statementKey struct{}

// begins counts a statement that begins. A statement outside a transaction, or one that ends a
// transaction, is the effect's side query on another connection. A panic there would be inside
// pgxpool's code, which cannot panic in production, and would leak the connection.
func (b *bomb) begins(ctx context.Context, conn *pgx.Conn, sql string) context.Context {
	if conn.PgConn().TxStatus() == idle || endsTransaction(sql) || !guard.Inside(ctx) {
		return ctx
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen++
	return context.WithValue(ctx, statementKey{}, b.seen)
}

// ends panics after the armed statement, once.
func (b *bomb) ends(ctx context.Context) {
	n, _ := ctx.Value(statementKey{}).(int)
	b.mu.Lock()
	now := n > 0 && n == b.at && !b.spent
	b.spent = b.spent || now
	b.mu.Unlock()
	if now {
		panic(errBomb)
	}
}

// idle is the status of a session without a transaction.
const idle = 'I'

// endsTransaction reports whether pgx ends a transaction with the statement.
func endsTransaction(sql string) bool { return sql == "commit" || sql == "rollback" }

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
