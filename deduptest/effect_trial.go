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

// effectScene is one scenario of VerifyEffect while it runs.
type effectScene struct {
	v   *effectVerification
	ctx context.Context
	out *ScenarioReport
}

// effectTrial is one case: the calls with one key.
type effectTrial struct {
	*effectScene
	notes
	call dedup.Call
	n    int // the number of the call's input
	// asked, page and sent are the counts of requests, effects and attempts before the case.
	asked, page, sent int
	disturbed         int // the number of requests that were to meet a fault
	// certain reports that no fault keeps the callers from an answer.
	certain bool
}

const effectScope = "deduptest"

// next returns a new call.
func (v *effectVerification) next() (call dedup.Call, n int) {
	v.cases++
	return dedup.Call{Scope: effectScope, Key: fmt.Sprintf("deduptest-%s-%d", v.run, v.cases)}, v.cases
}

// begin starts a case with a fresh key. f are the faults for its requests.
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
func (tr *effectTrial) on(p *instance) callResult {
	return tr.checkReply(p.call(tr.ctx, tr.call, tr.n))
}

// checkReply records what a caller got. finish judges errors at the end of the case.
func (tr *effectTrial) checkReply(r callResult) callResult {
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

// operation returns the state of the call's operation.
func (tr *effectTrial) operation() external.Operation {
	status, err := tr.v.other.tools.Status(tr.ctx, tr.call.Scope, tr.v.tool.name, tr.call.Key)
	if err != nil {
		tr.problemf("%v", err)
	}
	return status.Operation
}

// elapse advances the time for the operation and for the provider.
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

// pass advances the time until the operation is due. It returns the operation as it was before.
func (tr *effectTrial) pass() external.Operation {
	op := tr.operation()
	if !op.Due.IsZero() {
		tr.elapse(op.Due.Sub(op.Now))
	}
	return op
}

// maxActs is how often an operation is advanced before it counts as endless.
const maxActs = 60

// end finishes the case and reports its problems.
func (tr *effectTrial) end() {
	tr.finish()
	left := tr.v.tool.provider.setFaults(faults{})
	if tr.disturbed > 0 && len(left.requests) == tr.disturbed {
		tr.problemf("nothing was tested: no request came that could be disturbed")
	}
	tr.report(tr.out)
}

// finish lets the other process advance the operation until nothing is due, and judges the result.
func (tr *effectTrial) finish() {
	tr.on(tr.v.other) // a caller without an answer calls again
	var op external.Operation
	for acts := 0; ; acts++ {
		op = tr.pass()
		if op.Due.IsZero() {
			break
		}
		if acts == maxActs {
			tr.problemf("it is still %s after %d acts: %s", op.State, acts, op.Note)
			return
		}
		tr.checkAdvance(tr.advance())
	}
	tr.judge(op, tr.on(tr.v.other), tr.on(tr.v.one))
}

func (tr *effectTrial) advance() error {
	ctx, cancel := context.WithTimeout(tr.ctx, defaultPatience)
	defer cancel()
	_, err := tr.v.other.tools.Advance(ctx, tr.call.Scope, tr.v.tool.name, tr.call.Key)
	return err
}

// checkAdvance reports an error of Advance.
func (tr *effectTrial) checkAdvance(err error) {
	if err != nil {
		tr.problemf("going on with it: %v", err)
	}
}

// judge compares the record with the provider's book.
func (tr *effectTrial) judge(op external.Operation, last ...callResult) {
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

// judgeParked reports a parked operation whose outcome could have been found out.
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
	case tool.keyKept > 0 && op.ChangedAt.Sub(op.SentAt) < tool.keyUsable():
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
