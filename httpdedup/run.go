package httpdedup

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
)

type recorderKey struct{}

// Tx returns the transaction of the request that ctx belongs to. Writes through it are committed
// together with the handler's answer, or not at all. The handler cannot commit it or roll it back;
// its answer decides. It ends with the handler: a later use returns pgx.ErrTxClosed.
//
// ok is false outside a handler of [Middleware.Wrap], and for GET, HEAD, OPTIONS, TRACE and QUERY,
// which Wrap passes on.
func Tx(ctx context.Context) (tx pgx.Tx, ok bool) {
	rec, ok := ctx.Value(recorderKey{}).(*recorder)
	if !ok {
		return nil, false
	}
	return rec.tx, true
}

// Final declares that a retry must get the same answer as the one that the handler is about to
// give, such as 402 for a declined card. It applies to answers from 400 to 499: the handler's
// writes are rolled back, and the answer is stored and replayed. Without Final such an answer is
// rolled back and not stored, so a retry runs again and may succeed.
//
// Other answers are not affected: those below 400 are always stored, those from 500 never. Outside
// a wrapped handler Final has no effect.
func Final(ctx context.Context) {
	if rec, ok := ctx.Value(recorderKey{}).(*recorder); ok {
		rec.final.Store(true)
	}
}

// job is the work for one request: the call, and how to run it.
type job struct {
	m    *Middleware
	r    *http.Request
	next http.Handler
	inv  tool.Invocation
	body []byte
	// outer are the headers that outer layers set.
	outer http.Header
	// last is the answer of the handler's latest run, nil before the first.
	last *recorder
	runs int
}

// effect runs the handler in the call's transaction and returns the text to record. dedup may run
// it again after a fault; the earlier run is rolled back.
func (j *job) effect(ctx context.Context, tx pgx.Tx) (json.RawMessage, error) {
	if j.last != nil && !routed(j.r) {
		return nil, errRunOnce
	}
	rec := newRecorder(tx, j.outer, j.m.most)
	j.last = rec
	j.runs++
	j.serve(context.WithValue(context.WithValue(ctx, door.InvocationKey{}, j.inv), recorderKey{}, rec), rec)
	if err := rec.finish(); err != nil {
		return nil, err
	}
	if !rec.kept() {
		return nil, &failedAnswer{status: rec.status}
	}
	if err := rec.store(j.m.opts.Headers); err != nil {
		return nil, err
	}
	if rec.status < 400 {
		return rec.text, nil
	}
	return nil, dedup.Final(&failedAnswer{rec.status, rec.text})
}

// serve gives the handler a copy of the request, with the body from its beginning and without
// accepted encodings.
func (j *job) serve(ctx context.Context, rec *recorder) {
	r := j.r.Clone(ctx)
	withBody(r, j.body)
	// The answer is replayed to requests that may accept other encodings.
	r.Header.Set("Accept-Encoding", "identity")
	// net/http removes a form's files only for requests that it made.
	defer func() {
		if r.MultipartForm != nil {
			_ = r.MultipartForm.RemoveAll()
		}
	}()
	j.next.ServeHTTP(rec, r)
}

// routed reports whether r was routed to its end. A router may keep its progress in the request's
// context, and continues there if it gets the request again. chi then finds no route, if the
// middleware was given to Use.
func routed(r *http.Request) bool {
	for _, unfinished := range [...]string{"/", "*", "...}"} {
		if strings.HasSuffix(r.Pattern, unfinished) {
			return false
		}
	}
	return r.Pattern != ""
}
