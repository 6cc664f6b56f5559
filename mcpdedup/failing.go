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

// failure is an error as a client is told of it. It is an error itself where a call is not made.
type failure struct {
	code door.Code
	text string
	// meta is what _meta has beside code and key.
	meta mcp.Meta
	// hidden says that the text is not all, and the server's author is told.
	hidden bool
	// err is the cause, which the client is not told.
	err error
}

func (e *failure) Error() string {
	if e.err == nil {
		return "mcpdedup: " + e.text
	}
	return fmt.Sprintf("mcpdedup: %s (%v)", e.text, e.err)
}

func (e *failure) Unwrap() error { return e.err }

// notMade is the failure of a call that is refused before its tool is asked.
func notMade(code door.Code, text string, err error) *failure {
	return &failure{code: code, text: text + nothing + next[code], hidden: err != nil, err: err}
}

// failed returns the tool error that an error becomes.
func (o *offered) failed(ctx context.Context, key string, err error) *mcp.CallToolResult {
	told := o.tell(ctx, key, err)
	if told.hidden {
		hash := ""
		if key != "" {
			hash = dedup.KeyHash(key)
		}
		o.opts.report(ctx, Failure{Tool: o.info.Name, Code: string(told.code), KeyHash: hash, Err: err})
	}
	res := &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: told.text}}, Meta: mcp.Meta{door.MetaError: string(told.code)}}
	if key != "" && told.code != door.KeyInvalid {
		res.Meta[MetaKey] = key
	}
	maps.Copy(res.Meta, told.meta)
	return res
}

const nothing = " Nothing was done. "

func (o *offered) tell(ctx context.Context, key string, err error) failure {
	w := o.words(key)
	if cancelled(ctx, err) {
		return failure{code: door.Timeout, text: w.Text(door.Failure{Code: door.Timeout})}
	}
	var ready *failure
	if errors.As(err, &ready) {
		return *ready
	}
	of := door.FailureOf(o.info.RecordedAs, err)
	told := failure{code: of.Code, text: w.Text(of)}
	switch of.Code {
	case door.KeyReused, door.Expired:
		told.meta = mcp.Meta{door.MetaFirstAt: rfc3339(of.Record.FirstAt)}
	case door.InFlight:
		told.meta = mcp.Meta{door.MetaRetryAfter: door.Seconds(o.opts.RetryAfter)}
	case door.Refused:
		return refusedFailure(of.Refusal)
	case door.KeyRequired:
		if len(o.info.Key) == 0 {
			told.text = o.keyRequiredText()
		}
	case door.KeyInvalid, door.ArgumentsInvalid:
	case door.Blocked, door.OutcomeUnknown, door.Unavailable, door.Timeout:
		told.hidden = true
	default:
		told.code, told.hidden = door.Failed, true
		if o.opts.Explain != nil {
			if text, ok := o.opts.Explain(ctx, err); ok {
				told.text, told.hidden = text, false
			}
		}
	}
	return told
}

// cancelled reports whether a call failed because its client cancelled it or has
// gone. That is no fault of the server's, unless something may have been done: then
// the server's author is told what.
func cancelled(ctx context.Context, err error) bool {
	return errors.Is(ctx.Err(), context.Canceled) && errors.Is(err, context.Canceled) &&
		!errors.Is(err, dedup.ErrOutcomeUnknown) && !errors.Is(err, dedup.ErrBroken)
}

// next says what to do about a call that was not made.
var next = map[door.Code]string{
	door.KeyInvalid:       fmt.Sprintf("Call again with a key of 1 to %d characters, such as a UUID.", maxKeyLength),
	door.ArgumentsInvalid: "Correct it and call again.",
	door.Unidentified:     "Another key or other arguments do not help; the client has to authenticate.",
}

func refusedFailure(refused *dedup.RefusedError) failure {
	told := failure{code: door.Refused, text: refused.Message, meta: mcp.Meta{door.MetaDuplicate: door.IsDuplicate(refused.Replayed, refused.Recovered), door.MetaFirstAt: rfc3339(refused.CreatedAt)}}
	if door.OfDatabase(refused.Message) {
		// An error of the database's or of its driver's that was recorded as the
		// answer, by a tool that records all errors. Of a replay there is nothing
		// but the text.
		told.text, told.hidden = door.HiddenRefusal, true
		return told
	}
	extra := map[string]any{}
	if refused.Code != "" {
		extra["code"] = refused.Code
	}
	if refused.Details != nil {
		extra["details"] = refused.Details
	}
	if len(extra) > 0 {
		told.meta[door.MetaRefusal] = extra
	}
	return told
}
