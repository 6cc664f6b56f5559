package dedupweb

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

const (
	changed = "It has changed since you read it, and nothing was done. Reload the page."
	notSure = "The outcome is unknown. Reload the call's page."
)

// act runs an act on a call if the visitor may act. If it is refused, act shows the call's page
// again with the form as it was filled in.
func (c *console) act(v *visit, act func(id call, reason string) error) error {
	id, err := v.checkAct()
	if err != nil {
		return err
	}
	err = fail(http.StatusBadRequest, "Give a reason; the audit keeps it.")
	if reason := strings.TrimSpace(v.r.FormValue("reason")); reason != "" {
		err = act(id, reason)
	}
	refused, ok := errors.AsType[*failure](err)
	switch {
	case err == nil:
		return v.redirect(id.Link())
	case !ok:
		return err
	}
	k, err := c.readCall(v, id)
	if err != nil {
		return refused
	}
	k.Problem, k.Form = refused.text, v.r.PostForm
	return v.pageAs(refused.code, "call", k)
}

// checkAct checks that the visitor may act, and reads which call the form names.
func (v *visit) checkAct() (id call, err error) {
	if !v.Act {
		return id, fail(http.StatusForbidden, "You may read, but not act.")
	}
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
	if err := v.r.ParseForm(); err != nil {
		return id, fail(http.StatusBadRequest, "The form cannot be read.")
	}
	v.r.Form = v.r.PostForm // without the address's query
	return v.identity()
}

// reset deletes the record that the visitor has read.
func (c *console) reset(v *visit) error {
	return c.act(v, func(id call, reason string) error {
		return v.change(reason, func(opts dedup.ChangeOptions) (bool, error) {
			return c.d.Reset(v.r.Context(), id.Scope, id.Tool, id.Key, opts)
		})
	})
}

// change changes the record that the visitor has read. The form has its created_at.
func (v *visit) change(reason string, change func(opts dedup.ChangeOptions) (changed bool, err error)) error {
	createdAt, err := time.Parse(time.RFC3339Nano, v.r.FormValue("created_at"))
	if err != nil || createdAt.IsZero() {
		return fail(http.StatusBadRequest, "The form does not say which record it is.")
	}
	var invalid *dedup.InvalidError
	done, err := change(dedup.ChangeOptions{Reason: reason, Actor: v.Name, CreatedAt: createdAt})
	switch {
	case errors.Is(err, dedup.ErrInFlight):
		return fail(http.StatusConflict, "The call is in flight, and nothing is changed.")
	case errors.As(err, &invalid) && invalid.Field != "CreatedAt":
		return fail(http.StatusConflict, "%s.", strings.TrimSpace(invalid.Field+" "+invalid.Reason))
	case errors.Is(err, dedup.ErrInvalid), err == nil && !done:
		return fail(http.StatusConflict, changed)
	case err != nil:
		return fail(http.StatusInternalServerError, "%s %s", errorText(err), notSure)
	}
	return nil
}

// resolve stores a verdict on an operation, or the result of a broken record.
func (c *console) resolve(v *visit) error {
	return c.act(v, func(id call, reason string) error {
		if v.r.FormValue("created_at") == "" {
			return c.resolveOperation(v, id, reason)
		}
		result, err := v.result()
		if err != nil {
			return err
		}
		return v.change(reason, func(opts dedup.ChangeOptions) (bool, error) {
			return c.d.Resolve(v.r.Context(), id.Scope, id.Tool, id.Key, result, opts)
		})
	})
}

// resolveOperation stores a verdict on the operation that the visitor has read. The form has its
// fence.
func (c *console) resolveOperation(v *visit, id call, reason string) error {
	fence, err := strconv.ParseInt(v.r.FormValue("fence"), 10, 64)
	if err != nil {
		return fail(http.StatusBadRequest, "The form does not say which operation it is.")
	}
	verdict, err := v.verdict(reason)
	if err != nil {
		return err
	}
	status, err := c.tools.Status(v.r.Context(), id.Scope, id.Tool, id.Key)
	op, clears := status.Operation, v.r.FormValue("verdict") == "cleared"
	switch {
	case err != nil:
		return err
	case op.State == external.StateNone, (op.State == external.StateDone) != clears, clears && op.Twice == "":
		return fail(http.StatusConflict, changed)
	case v.r.FormValue("overrule") != "":
		verdict = verdict.Overruling()
	case op.Verdict != "":
		return decided(op)
	}
	if op.Fence != fence {
		return fail(http.StatusConflict, changed)
	}
	err = c.tools.Resolve(v.r.Context(), op, verdict.By(v.Name))
	problem, invalid := errors.AsType[*dedup.InvalidError](err)
	first, isDecided := errors.AsType[*external.VerdictError](err)
	switch {
	case isDecided:
		return decided(first.Operation)
	case errors.Is(err, dedup.ErrInFlight):
		return fail(http.StatusConflict, "An attempt is running, or the operation has changed since you read it. Reload the page.")
	case invalid:
		text := problem.Field + " " + problem.Reason
		if problem.Err != nil {
			text += ": " + strings.TrimPrefix(problem.Err.Error(), "dedup: ")
		}
		return fail(http.StatusBadRequest, "%s.", text)
	case err != nil: // the verdict may be stored, and carrying it out here failed
		return fail(http.StatusConflict, "The verdict was not carried out. %s", notSure)
	}
	return nil
}

func decided(op external.Operation) error {
	return fail(http.StatusConflict, "It has a verdict: %s. Yours is not stored.", op.Decision())
}

func (v *visit) verdict(reason string) (external.Verdict, error) {
	switch v.r.FormValue("verdict") {
	case "happened":
		result, err := v.result()
		return external.Happened(result, reason), err
	case "cleared":
		return external.Cleared(reason), nil
	case "never":
		return external.Never(reason), nil
	case "refuse":
		return external.Refuse(reason), nil
	}
	return external.Verdict{}, fail(http.StatusBadRequest, "Choose a verdict.")
}

// result returns the result that the visitor entered.
func (v *visit) result() (json.RawMessage, error) {
	result := v.r.FormValue("result")
	if !utf8.ValidString(result) || !json.Valid([]byte(result)) {
		return nil, fail(http.StatusBadRequest, `The result is not JSON. Enter the tool's result, such as {"id":"re_1"}.`)
	}
	return json.RawMessage(result), nil
}
