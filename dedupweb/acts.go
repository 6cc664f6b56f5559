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
	changed = "It has changed since you looked, and nothing is done. Look at it again."
	notSure = "Whether it is done is not known. Look at the call again."
)

// acts reads what somebody posts who may act, and why.
func (v *visit) acts() (id call, reason string, err error) {
	if !v.Act {
		return id, "", fail(http.StatusForbidden, "You may look, and not act.")
	}
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
	if err := v.r.ParseForm(); err != nil {
		return id, "", fail(http.StatusBadRequest, "The form cannot be read.")
	}
	v.r.Form = v.r.PostForm // and nothing of the address
	if id, err = v.identity(); err != nil {
		return id, "", err
	}
	if reason = strings.TrimSpace(v.r.FormValue("reason")); reason == "" {
		return id, "", fail(http.StatusBadRequest, "Say why: the reason is kept in the audit.")
	}
	return id, reason, nil
}

// reset frees the record that the visitor has looked at.
func (c *console) reset(v *visit) error {
	id, reason, err := v.acts()
	if err != nil {
		return err
	}
	createdAt, err := time.Parse(time.RFC3339Nano, v.r.FormValue("created_at"))
	if err != nil || createdAt.IsZero() {
		return fail(http.StatusBadRequest, "The form does not say which record it is.")
	}
	var invalid *dedup.InvalidError
	freed, err := c.d.Reset(v.r.Context(), id.Scope, id.Tool, id.Key, dedup.ResetOptions{Reason: reason, Actor: v.Name, CreatedAt: createdAt})
	switch {
	case errors.Is(err, dedup.ErrInFlight):
		return fail(http.StatusConflict, "The call is in flight, and nothing is freed.")
	case errors.As(err, &invalid) && invalid.Field != "CreatedAt":
		return fail(http.StatusConflict, "%s %s.", invalid.Field, invalid.Reason)
	case errors.Is(err, dedup.ErrInvalid), err == nil && !freed:
		return fail(http.StatusConflict, changed)
	case err != nil:
		return fail(http.StatusInternalServerError, "%s %s", explained(err), notSure)
	}
	return v.goTo(id.Link())
}

// resolve stores a verdict on the operation that the visitor has looked at.
func (c *console) resolve(v *visit) error {
	id, reason, err := v.acts()
	if err != nil {
		return err
	}
	fence, err := strconv.ParseInt(v.r.FormValue("fence"), 10, 64)
	if err != nil {
		return fail(http.StatusBadRequest, "The form does not say which operation it is.")
	}
	verdict, err := v.verdict(reason)
	if err != nil {
		return err
	}
	status, err := c.tools.Status(v.r.Context(), id.Scope, id.Tool, id.Key)
	op := status.Operation
	switch {
	case err != nil:
		return err
	case op.State == external.None || op.State == external.Done:
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
		return fail(http.StatusConflict, "An attempt is under way, or somebody has acted since you looked. Look at it again.")
	case invalid:
		return fail(http.StatusBadRequest, "%s %s.", problem.Field, problem.Reason)
	case err != nil: // the verdict may be stored, and a tool that is here have failed
		return fail(http.StatusConflict, "The verdict was not carried out. %s", notSure)
	}
	return v.goTo(id.Link())
}

func decided(op external.Operation) error {
	return fail(http.StatusConflict, "It has a verdict: %s. Yours is not stored.", op.Decision())
}

func (v *visit) verdict(reason string) (external.Verdict, error) {
	switch result := v.r.FormValue("result"); v.r.FormValue("verdict") {
	case "happened":
		if !utf8.ValidString(result) || !json.Valid([]byte(result)) {
			return external.Verdict{}, fail(http.StatusBadRequest, `The result is not JSON; it is to be the tool's, such as {"id":"re_1"}.`)
		}
		return external.Happened(json.RawMessage(result), reason), nil
	case "never":
		return external.Never(reason), nil
	case "refuse":
		return external.Refuse(reason), nil
	}
	return external.Verdict{}, fail(http.StatusBadRequest, "Say what became of it.")
}
