package httpdedup

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/guard"
)

// run is one run of a handler, as its context knows it.
type run struct {
	tx    pgx.Tx
	final atomic.Bool
}

type runKey struct{}

// Tx returns the transaction of the request that a context belongs to. What the
// handler writes through it is committed together with its answer, or not at all.
// It cannot be committed or rolled back, which answering does, and ends with the
// handler: what uses it later gets pgx.ErrTxClosed.
//
// ok is false outside of a handler that [Middleware.Wrap] has wrapped, and for
// GET, HEAD, OPTIONS, TRACE and QUERY, which it passes on.
func Tx(ctx context.Context) (tx pgx.Tx, ok bool) {
	r, ok := ctx.Value(runKey{}).(*run)
	if !ok {
		return nil, false
	}
	return r.tx, true
}

// Final says that the answer which the handler is about to give must not change
// when the client tries again, such as 402 for a card that was declined. It counts
// for an answer of 400 to 499: the handler's writes are rolled back, and the answer
// is stored and replayed. Without it such an answer rolls back and is not stored,
// so that a retry runs again and may succeed.
//
// It changes nothing about other answers: below 400 all are stored, from 500 on
// none is. Outside of a wrapped handler it does nothing.
func Final(ctx context.Context) {
	if r, ok := ctx.Value(runKey{}).(*run); ok {
		r.final.Store(true)
	}
}

// job is what a request has to be answered with: a call, and how to run it.
type job struct {
	m    *Middleware
	r    *http.Request
	tool string
	next http.Handler
	body []byte
	// outer are the headers that layers around have set so far.
	outer http.Header
	// last is the answer of the handler's latest run, nil before the first.
	last *recorder
	// text is how that answer is to be stored, nil where it is not.
	text json.RawMessage
	// refusal is that answer where it is final and a statement has failed.
	refusal error
	runs    int
}

// effect runs the handler in the call's transaction and returns what to record.
// dedup may run it again after a fault, with everything else rolled back.
func (j *job) effect(ctx context.Context, tx pgx.Tx) (json.RawMessage, error) {
	if j.last != nil && !routed(j.r) {
		return nil, errRunOnce
	}
	state := &run{tx: tx}
	rec := newRecorder(j.outer, j.m.opts.MaxResponse)
	j.last, j.text, j.refusal = rec, nil, nil
	j.runs++
	j.serve(context.WithValue(ctx, runKey{}, state), rec)
	if err := rec.finish(); err != nil {
		return nil, err
	}

	final := state.final.Load() && rec.status < 500
	if rec.status >= 400 && !final {
		return j.abandon(tx)
	}
	text, err := storedAnswer(rec, j.m.opts.Headers)
	if err != nil {
		return nil, err
	}
	if j.text = text; rec.status < 400 {
		return text, nil
	}
	refusal := dedup.Final(&refusedAnswer{rec.status, text})
	if failed(tx) {
		j.refusal = refusal
		return leftToDedup()
	}
	return nil, refusal
}

// serve gives the handler a request of its own, whose body can be read from the
// beginning and whose answer is not to be encoded.
func (j *job) serve(ctx context.Context, rec *recorder) {
	r := j.r.Clone(ctx)
	withBody(r, j.body)
	// The answer is replayed to requests that may accept other encodings.
	r.Header.Set("Accept-Encoding", "identity")
	// net/http removes the files of a form for requests that it made.
	defer func() {
		if r.MultipartForm != nil {
			_ = r.MultipartForm.RemoveAll()
		}
	}()
	j.next.ServeHTTP(rec, r)
}

// abandon ends a run whose answer is not stored.
func (j *job) abandon(tx pgx.Tx) (json.RawMessage, error) {
	if failed(tx) {
		return leftToDedup()
	}
	return nil, &rolledBack{j.last.status}
}

// failed reports whether a statement has failed in a handler's transaction. Then an
// answer of 400 or more most likely says no more than that.
func failed(tx pgx.Tx) bool {
	pg := tx.Conn().PgConn()
	return pg.IsClosed() || pg.TxStatus() == 'E'
}

// leftToDedup leaves dedup to find the transaction aborted, because it has seen the
// statement's own error and runs the handler again after a deadlock or the like.
// What is returned here cannot be recorded: nothing can in such a transaction.
func leftToDedup() (json.RawMessage, error) { return json.RawMessage("null"), nil }

// abortedForGood reports whether err is that of a call whose handler met a failed
// statement, and would meet it again.
func abortedForGood(err error) bool {
	return errors.Is(err, guard.ErrTxAborted) && !dedup.IsRetryable(err)
}

// refuse records the answer of a run that is final although a statement has failed.
// Where a twin has been answered since, that is the answer.
func (j *job) refuse(context.Context, pgx.Tx) (json.RawMessage, error) { return nil, j.refusal }

// routed reports whether r has been routed to its end. A router may keep in the
// request's context how far it got, and would go on from there when the request
// came again: chi, where the middleware is given to Use, finds no route then.
func routed(r *http.Request) bool {
	for _, unfinished := range [...]string{"/", "*", "...}"} {
		if strings.HasSuffix(r.Pattern, unfinished) {
			return false
		}
	}
	return r.Pattern != ""
}
