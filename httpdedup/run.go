package httpdedup

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/tool"
)

type recorderKey struct{}

// Tx returns the transaction of the request that a context belongs to. What the
// handler writes through it is committed together with its answer, or not at all.
// It cannot be committed or rolled back, which answering does, and ends with the
// handler: what uses it later gets pgx.ErrTxClosed.
//
// ok is false outside of a handler that [Middleware.Wrap] has wrapped, and for
// GET, HEAD, OPTIONS, TRACE and QUERY, which it passes on.
func Tx(ctx context.Context) (tx pgx.Tx, ok bool) {
	rec, ok := ctx.Value(recorderKey{}).(*recorder)
	if !ok {
		return nil, false
	}
	return rec.tx, true
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
	if rec, ok := ctx.Value(recorderKey{}).(*recorder); ok {
		rec.final.Store(true)
	}
}

// job is what a request has to be answered with: a call, and how to run it.
type job struct {
	m    *Middleware
	r    *http.Request
	next http.Handler
	inv  tool.Invocation
	body []byte
	// outer are the headers that layers around have set so far.
	outer http.Header
	// last is the answer of the handler's latest run, nil before the first.
	last *recorder
	// left is the error of that answer where a statement has failed, and dedup was left to find that.
	left error
	runs int
}

// effect runs the handler in the call's transaction and returns what to record.
// dedup may run it again after a fault, with everything else rolled back.
func (j *job) effect(ctx context.Context, tx pgx.Tx) (json.RawMessage, error) {
	if j.last != nil && !routed(j.r) {
		return nil, errRunOnce
	}
	rec := newRecorder(tx, j.outer, j.m.most)
	j.last, j.left = rec, nil
	j.runs++
	j.serve(context.WithValue(context.WithValue(ctx, door.InvocationKey{}, j.inv), recorderKey{}, rec), rec)
	if err := rec.finish(); err != nil {
		return nil, err
	}
	failure := error(&failedAnswer{status: rec.status})
	if rec.kept() {
		if err := rec.store(j.m.opts.Headers); err != nil {
			return nil, err
		}
		if rec.status < 400 {
			return rec.text, nil
		}
		failure = dedup.Final(&failedAnswer{rec.status, rec.text})
	}
	if pg := tx.Conn().PgConn(); pg.IsClosed() || pg.TxStatus() == 'E' {
		// The answer most likely says no more than that a statement has failed. dedup has seen that
		// error: it finds the transaction aborted, and runs the handler again after a deadlock or the like.
		// What is returned here is not recorded: nothing can be in such a transaction.
		j.left = failure
		return json.RawMessage("null"), nil
	}
	return nil, failure
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

// abortedForGood reports whether err is that of a call whose handler met a failed
// statement, and would meet it again.
func abortedForGood(err error) bool {
	return errors.Is(err, guard.ErrTxAborted) && !dedup.IsRetryable(err)
}

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
