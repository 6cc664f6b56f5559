package deduptest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// effectScene is one scenario of VerifyEffect while it is run.
type effectScene struct {
	v   *effectVerification
	ctx context.Context
	out *Outcome
}

// effectTrial is one case: the calls with one key.
type effectTrial struct {
	*effectScene
	notes
	call dedup.Call
	n    int // of its input
	// asked, page and sent are how far the provider and the processes were before it.
	asked, page, sent int
	disturbed         int // how many of its requests were to meet something
	// certain says that nothing keeps its callers from an answer.
	certain bool
}

const effectScope = "deduptest"

// next names a call that is new.
func (v *effectVerification) next() (call dedup.Call, n int) {
	v.cases++
	return dedup.Call{Scope: effectScope, Key: fmt.Sprintf("deduptest-%s-%d", v.run, v.cases)}, v.cases
}

// begin starts a case with a fresh key, whose requests may meet something.
func (sc *effectScene) begin(f faults, format string, args ...any) *effectTrial {
	sc.out.Cases++
	tr := &effectTrial{effectScene: sc, notes: notes{what: fmt.Sprintf(format, args...)}}
	tr.call, tr.n = sc.v.next()
	tr.disturbed = len(f.requests)
	tr.sent = sc.v.attempts()
	tr.asked, tr.page = sc.v.tool.provider.requests()
	sc.v.tool.provider.setFaults(f)
	return tr
}

func (v *effectVerification) attempts() int { return v.one.steps.sent() + v.other.steps.sent() }

// on makes the call in a process.
func (tr *effectTrial) on(p *instance) told { return tr.took(p.call(tr.ctx, tr.call, tr.n)) }

// took judges what a caller was told. Errors are for the end of the case to judge.
func (tr *effectTrial) took(r told) told {
	tr.out.Calls++
	text := r.text
	if refused, ok := errors.AsType[*dedup.RefusedError](r.err); ok {
		text = "a refusal: " + refused.Message
	} else if r.err != nil {
		tr.note("error: %v", r.err)
		return r
	}
	tr.answer(text)
	return r
}

// operation is where the call stands.
func (tr *effectTrial) operation() external.Operation {
	status, err := tr.v.other.tools.Status(tr.ctx, tr.call.Scope, tr.v.tool.name, tr.call.Key)
	if err != nil {
		tr.problemf("%v", err)
	}
	return status.Operation
}

// elapse lets time pass for the operation and for the provider.
func (tr *effectTrial) elapse(d time.Duration) {
	if d <= 0 {
		return
	}
	schema := "public"
	if o := tr.v.tool.options; o != nil && o.Schema != "" {
		schema = o.Schema
	}
	_, err := tr.v.direct.Exec(tr.ctx, `
		UPDATE `+pgx.Identifier{schema, "tool_effect"}.Sanitize()+`
		SET due_at = due_at - $4::interval, sent_at = sent_at - $4::interval,
		    sent_until = sent_until - $4::interval, changed_at = changed_at - $4::interval
		WHERE scope = $1 AND tool = $2 AND key = $3`, tr.call.Scope, tr.v.tool.name, tr.call.Key, d)
	if err != nil {
		tr.problemf("making the operation older: %v", err)
	}
	tr.v.tool.provider.elapse(d)
}

// pass lets so much time pass that somebody may act, and returns the operation as it was then.
func (tr *effectTrial) pass() external.Operation {
	op := tr.operation()
	if !op.Due.IsZero() {
		tr.elapse(op.Due.Sub(op.Now))
	}
	return op
}

// mostActs is how often an operation is acted on before it counts as one without end.
const mostActs = 60

// end brings the case to its end, and reports what was wrong with it.
func (tr *effectTrial) end() {
	tr.finish()
	left := tr.v.tool.provider.setFaults(faults{})
	if tr.disturbed > 0 && len(left.requests) == tr.disturbed {
		tr.problemf("nothing was tested: no request came that could be disturbed")
	}
	tr.report(tr.out)
}

// finish has the other process go on with the call until nothing is to be done any more, and
// judges the outcome.
func (tr *effectTrial) finish() {
	tr.on(tr.v.other) // a caller who has no answer calls again
	var op external.Operation
	for acts := 0; ; acts++ {
		op = tr.pass()
		if op.Due.IsZero() {
			break
		}
		if acts == mostActs {
			tr.problemf("it is still %s after %d acts: %s", op.State, acts, op.Note)
			return
		}
		tr.went(tr.advance())
	}
	tr.judge(op, tr.on(tr.v.other), tr.on(tr.v.one))
}

func (tr *effectTrial) advance() error {
	ctx, cancel := context.WithTimeout(tr.ctx, defaultPatience)
	defer cancel()
	_, err := tr.v.other.tools.Advance(ctx, tr.call.Scope, tr.v.tool.name, tr.call.Key)
	return err
}

// went takes what going on with the operation came to.
func (tr *effectTrial) went(err error) {
	if err != nil {
		tr.problemf("going on with it: %v", err)
	}
}

// judge compares what is recorded with the provider's book.
func (tr *effectTrial) judge(op external.Operation, last ...told) {
	tool := tr.v.tool
	happened := tool.provider.since(tr.page)
	if n := len(happened); n > 1 {
		silently := ", and nothing reports it"
		if op.Twice != "" {
			silently = "; it is reported as twice"
		}
		tr.problemf("it happened %d times%s", n, silently)
	}
	if len(happened) == 1 && op.Twice != "" {
		tr.problemf("it is reported as twice, by %s, and happened once; does Find go by the attempt's Key?", op.Twice)
	}
	asked, _ := tool.provider.requests()
	if requests, attempts := asked-tr.asked, tr.v.attempts()-tr.sent; requests > attempts {
		tr.problemf("%d requests came of %d attempts; Perform must not retry, nor its client: give that an external.Transport", requests, attempts)
	}
	for _, r := range last {
		parked, isParked := errors.AsType[*external.ParkedError](r.err)
		switch {
		case r.err == nil:
			if !slices.ContainsFunc(happened, func(e effect) bool { return e.id == r.ref }) {
				tr.problemf("it is recorded as %q, and the provider's book has %s of it", r.ref, ids(happened))
			}
		case errors.Is(r.err, dedup.ErrRefused):
			if len(happened) > 0 {
				tr.problemf("it is recorded as refused, and it happened; is an error taken for a refusal of which nobody knows whether it is one?")
			}
		case isParked:
			tr.judgeParked(parked.Operation, happened)
		default:
			tr.problemf("the call still fails when nothing disturbs it any more: %v", r.err)
		}
	}
}

// judgeParked says what could have told what became of a call.
func (tr *effectTrial) judgeParked(op external.Operation, happened []effect) {
	tool := tr.v.tool
	now := tool.provider.clock()
	seen := slices.ContainsFunc(happened, func(e effect) bool { return !now.Before(e.visible) })
	could := ""
	switch {
	case tool.finds && tool.settles > 0:
		could = "a look-up after Settles shows what became of it"
	case tool.finds && seen:
		could = "a look-up finds it"
	case tool.keyKept > 0 && op.ChangedAt.Sub(op.SentAt) < tool.holds():
		could = "its key is still kept"
	case tr.certain:
		could = "no attempt was disturbed"
	default:
		return
	}
	tr.problemf("it is parked, and %s: %s", could, op.Note)
}

func ids(effects []effect) string {
	if len(effects) == 0 {
		return "no such effect"
	}
	all := make([]string, len(effects))
	for i, e := range effects {
		all[i] = e.id
	}
	return strings.Join(all, ", ")
}
