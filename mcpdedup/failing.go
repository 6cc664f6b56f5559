package mcpdedup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

// failing makes answers of errors. A text says what happened, whether anything
// was done, and what to do next, in that order: a model acts on the last.
type failing struct {
	opts *Options
	info tool.Info
	// keyArgument is the argument that holds the key, empty if none does.
	keyArgument string
}

// failure is an error as a client is told of it.
type failure struct {
	code Code
	text string
	// more is a second text: the earlier result that a lookalike has.
	more json.RawMessage
	// meta is what _meta has beside code and key.
	meta mcp.Meta
	// hidden says that the text is not all, and the server's author is told.
	hidden bool
}

// answer returns the tool error that an error becomes.
func (f *failing) answer(ctx context.Context, key string, err error) *mcp.CallToolResult {
	told := f.tell(ctx, key, err)
	if told.hidden {
		hash := ""
		if key != "" {
			hash = dedup.KeyHash(key)
		}
		f.opts.report(ctx, Failure{Tool: f.info.Name, Code: told.code, KeyHash: hash, Err: err})
	}
	res := &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: told.text}}, Meta: mcp.Meta{MetaError: string(told.code)}}
	if told.more != nil {
		res.Content = append(res.Content, &mcp.TextContent{Text: string(told.more)})
	}
	if key != "" && told.code != CodeKeyInvalid {
		res.Meta[f.opts.MetaKey] = key
	}
	for name, value := range told.meta {
		res.Meta[name] = value
	}
	return res
}

func (f *failing) tell(ctx context.Context, key string, err error) failure {
	if cancelled(ctx, err) {
		return failure{code: CodeTimeout, text: endedText + f.again(key)}
	}
	if told, ok := f.misuse(err); ok {
		return told
	}
	if told, ok := f.recorded(err); ok {
		return told
	}
	switch {
	case errors.Is(err, dedup.ErrOutcomeUnknown):
		return failure{code: CodeOutcomeUnknown, hidden: true,
			text: "It is not known whether this call was carried out. Call again " + f.sameKey() + ": if it was, the answer is its result, and nothing is done twice."}
	case errors.Is(err, dedup.ErrInFlight):
		seconds := f.opts.retryAfter()
		return failure{code: CodeInFlight, meta: mcp.Meta{MetaRetryAfter: seconds},
			text: fmt.Sprintf("The same call is still running. Wait %d seconds, then call again %s: the answer is its result.", seconds, f.sameKey())}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return failure{code: CodeTimeout, hidden: true, text: endedText + f.again(key)}
	case errors.Is(err, dedup.ErrAttemptsExhausted), dedup.IsTransient(err) && !f.wrote(err):
		return failure{code: CodeUnavailable, hidden: true, text: "The database is busy or cannot be reached. " + f.again(key)}
	}
	if f.opts.Explain != nil {
		if text, ok := f.opts.Explain(ctx, err); ok {
			return failure{code: CodeFailed, text: text}
		}
	}
	return failure{code: CodeFailed, hidden: true,
		text: "The call failed for a reason on the server's side that clients are not told. Other arguments may not help. " + f.again(key)}
}

const endedText = "The call ended before there was an answer. "

// cancelled reports whether a call failed because its client cancelled it or has
// gone. That is no fault of the server's, unless something may have been done: then
// the server's author is told what.
func cancelled(ctx context.Context, err error) bool {
	return errors.Is(ctx.Err(), context.Canceled) && errors.Is(err, context.Canceled) &&
		!errors.Is(err, dedup.ErrOutcomeUnknown) && !errors.Is(err, dedup.ErrBroken)
}

// wrote reports whether a ReadOnly tool tried to write. The SQLSTATE is that of a
// server which has just been demoted.
func (f *failing) wrote(err error) bool {
	var server *pgconn.PgError
	return !f.info.Class.Writes() && errors.As(err, &server) && server.Code == "25006"
}

// misuse says what is wrong with the call itself. Nothing was run.
func (f *failing) misuse(err error) (failure, bool) {
	const nothing = " Nothing was done. "
	var (
		take    *takeError
		scope   *scopeError
		arg     *tool.ArgumentError
		invalid *dedup.InvalidError
		alike   *tool.LookalikeError
	)
	switch {
	case errors.As(err, &scope):
		return failure{code: CodeUnidentified, hidden: true,
			text: "The server does not know on whose behalf this call is made." + nothing + "Another key or other arguments do not help; the client has to authenticate."}, true
	case errors.As(err, &take) && take.code == CodeKeyInvalid:
		return failure{code: CodeKeyInvalid, text: take.text + nothing +
			fmt.Sprintf("Call again with a key of 1 to %d characters, such as a UUID.", maxKeyLength)}, true
	case errors.As(err, &take):
		return failure{code: take.code, text: take.text + nothing + "Correct it and call again."}, true
	case errors.As(err, &arg):
		return failure{code: CodeArgumentsInvalid, text: argumentText(arg) + nothing + "Correct the arguments and call again."}, true
	case isSessionRequired(err):
		return failure{code: CodeSessionRequired, hidden: true,
			text: "The server does not know to which session this call belongs." + nothing + "Another key or other arguments do not help; the client has to say."}, true
	case errors.As(err, &invalid) && invalid.Field == "Key" && strings.HasPrefix(invalid.Reason, "is empty"):
		return failure{code: CodeKeyRequired, text: f.keyRequiredText()}, true
	case errors.As(err, &invalid) && invalid.Field == "Key":
		return failure{code: CodeKeyInvalid, text: fmt.Sprintf("What names the action (%s) cannot be its key: it must be 1 to %d bytes of text without control characters.", strings.Join(f.info.Key, ", "), maxKeyBytes) +
			nothing + "Correct the arguments and call again."}, true
	case errors.As(err, &invalid) && invalid.Field == "Args":
		return failure{code: CodeArgumentsInvalid, text: "The arguments " + invalid.Reason + "." + nothing + "Correct the arguments and call again."}, true
	case errors.As(err, &alike):
		return lookalikeFailure(alike), true
	default:
		return failure{}, false
	}
}

// recorded says what the call's record answers. A tool that makes calls of its
// own may return the errors of those: their keys, arguments and times are not the
// client's, and are kept from it.
func (f *failing) recorded(err error) (failure, bool) {
	var (
		recorded *dedup.Error
		refused  *dedup.RefusedError
	)
	switch {
	case errors.As(err, &recorded) && recorded.Answer == dedup.ErrKeyReused && recorded.Tool == f.info.Name:
		return failure{code: CodeKeyReused, meta: mcp.Meta{MetaFirstAt: rfc3339(recorded.FirstAt)}, text: f.reusedText(recorded)}, true
	case errors.As(err, &refused):
		return refusedFailure(refused), true
	case errors.As(err, &recorded) && recorded.Answer == dedup.ErrExpired && recorded.Tool == f.info.Name:
		return failure{code: CodeExpired, meta: mcp.Meta{MetaFirstAt: rfc3339(recorded.FirstAt)},
			text: fmt.Sprintf("This call was carried out at %s, and its result is no longer kept. Nothing was done again. Look up what it did before doing anything else.", seconds(recorded.FirstAt))}, true
	case errors.Is(err, dedup.ErrBroken):
		return failure{code: CodeBlocked, hidden: true,
			text: "This call may have been carried out without a record of its result, and is blocked so that it is not repeated. Do not call again, with this key or another: somebody has to look what it did."}, true
	default:
		return failure{}, false
	}
}

func lookalikeFailure(alike *tool.LookalikeError) failure {
	text := fmt.Sprintf("An equal call was carried out at %s under another key. Nothing was done now. ", seconds(alike.Earlier.At))
	if alike.Earlier.Result == nil {
		text += "Its result is no longer kept. "
	} else {
		text += "Its result follows; if this call is the same action, take it. "
	}
	text += "If the action is meant a second time, call again with the same arguments and key, and with " + ConfirmArgument + ": true."
	return failure{code: CodeLookalike, text: text, more: alike.Earlier.Result, meta: mcp.Meta{MetaLookalike: lookalikeMeta(&alike.Earlier)}}
}

func refusedFailure(refused *dedup.RefusedError) failure {
	told := failure{code: CodeRefused, text: refused.Message, meta: mcp.Meta{MetaDuplicate: isDuplicate(refused.Replayed, refused.Recovered), MetaFirstAt: rfc3339(refused.CreatedAt)}}
	if ofDatabase(refused.Message) {
		// An error of the database's or of its driver's that was recorded as the
		// answer, by a tool that records all errors. Of a replay there is nothing
		// but the text.
		told.text, told.hidden = "The tool refused this call, and its answer is final.", true
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
		told.meta[MetaRefusal] = extra
	}
	return told
}

// ofDatabase reports whether a text is an error of Postgres's or of pgx's. Those
// of pgx quote values of arguments, and name columns and types.
func ofDatabase(text string) bool {
	for _, mark := range [...]string{"(SQLSTATE ", "(OID ", "failed to encode args[", "can't scan into dest["} {
		if strings.Contains(text, mark) {
			return true
		}
	}
	return false
}
