package mcpdedup

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
)

// failure is an error as the client sees it. It is also the error of a call that is refused before
// its tool runs.
type failure struct {
	code door.Code
	text string
	// meta is added to code and key in _meta.
	meta mcp.Meta
	// hidden reports that the text leaves out details, which Options.OnError gets.
	hidden bool
	// err is the cause. The client does not see it.
	err error
}

func (e *failure) Error() string {
	if e.err == nil {
		return "mcpdedup: " + e.text
	}
	return fmt.Sprintf("mcpdedup: %s (%v)", e.text, e.err)
}

func (e *failure) Unwrap() error { return e.err }

// notMade returns the failure of a call that is refused before its tool runs.
func notMade(code door.Code, text string, err error) *failure {
	return &failure{code: code, text: text + nothing + next[code], hidden: err != nil, err: err}
}

// failed returns the tool error for an error.
func (o *offered) failed(ctx context.Context, key string, err error) *mcp.CallToolResult {
	f := o.failureOf(ctx, key, err)
	if f.hidden {
		hash := ""
		if key != "" {
			hash = dedup.KeyHash(key)
		}
		o.opts.report(ctx, Failure{Tool: o.info.Name, Code: string(f.code), KeyHash: hash, Err: err})
	}
	res := &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: f.text}}, Meta: mcp.Meta{door.MetaError: string(f.code)}}
	if key != "" && f.code != door.KeyInvalid {
		res.Meta[MetaKey] = key
	}
	maps.Copy(res.Meta, f.meta)
	return res
}

const nothing = " Nothing was done. "

func (o *offered) failureOf(ctx context.Context, key string, err error) failure {
	w := o.words(key)
	if cancelled(ctx, err) {
		return failure{code: door.Timeout, text: w.Text(door.Failure{Code: door.Timeout})}
	}
	var ready *failure
	if errors.As(err, &ready) {
		return *ready
	}
	of := door.FailureOf(o.info.RecordedAs, err)
	f := failure{code: of.Code, text: w.Text(of)}
	switch of.Code {
	case door.KeyReused, door.Expired:
		f.meta = mcp.Meta{door.MetaCreatedAt: rfc3339(of.Record.CreatedAt)}
	case door.InFlight:
		f.meta = mcp.Meta{door.MetaRetryAfter: door.Seconds(o.opts.RetryAfter)}
	case door.Refused:
		return refusedFailure(of.Refusal)
	case door.KeyRequired:
		if len(o.info.Key) == 0 {
			f.text = o.keyRequiredText()
		}
	case door.KeyInvalid, door.ArgumentsInvalid:
	case door.Blocked, door.OutcomeUnknown, door.Unavailable, door.Timeout:
		f.hidden = true
	default:
		f.code, f.hidden = door.Failed, true
		if o.opts.Explain != nil {
			if text, ok := o.opts.Explain(ctx, err); ok {
				f.text, f.hidden = text, false
			}
		}
	}
	return f
}

// cancelled reports whether a call failed because its client cancelled it or left. That is not the
// server's fault. A call that may have been committed does not count: OnError must get it.
func cancelled(ctx context.Context, err error) bool {
	return errors.Is(ctx.Err(), context.Canceled) && errors.Is(err, context.Canceled) &&
		!errors.Is(err, dedup.ErrOutcomeUnknown) && !errors.Is(err, dedup.ErrBroken)
}

// next has the advice for a call that was not made.
var next = map[door.Code]string{
	door.KeyInvalid:       fmt.Sprintf("Call again with a key of 1 to %d characters, such as a UUID.", maxKeyLength),
	door.ArgumentsInvalid: "Correct it and call again.",
	door.Unidentified:     "Another key or other arguments do not help; the client has to authenticate.",
}

func refusedFailure(refused *dedup.RefusedError) failure {
	shown, hidden := door.Disclose(refused)
	f := failure{code: door.Refused, text: shown.Message, hidden: hidden, meta: mcp.Meta{door.MetaDuplicate: door.IsDuplicate(refused.Replayed, refused.Recovered), door.MetaCreatedAt: rfc3339(refused.CreatedAt)}}
	extra := map[string]any{}
	if shown.Code != "" {
		extra["code"] = shown.Code
	}
	if shown.Details != nil {
		extra["details"] = shown.Details
	}
	if len(extra) > 0 {
		f.meta[door.MetaRefusal] = extra
	}
	return f
}
