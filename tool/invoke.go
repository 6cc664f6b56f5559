package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/internal/guard"
)

// Invocation is a call of a registered tool, as a model, an orchestrator or a client sent it.
type Invocation struct {
	// Scope is the principal that the tool runs for. Take it from the authentication, never from
	// the arguments. Required for all but ReadOnly tools.
	Scope string
	// Session, Turn and CallID locate the call in a conversation: see [dedup.KeyFromToolCall]. They
	// make the key if the call has no other. CallID is the id as the provider sent it. If the id
	// cannot name a call ([dedup.UsableToolCallID]), the arguments make the key, and Turn must
	// count from 1: with Turn 0 they make none, unless InvokeAll gets the whole message.
	Session string
	Turn    int
	CallID  string
	// Key names the intent. The caller made it.
	Key string
	// Request names, within Scope, the user's request that the model works on. A tool with
	// OncePerRequest needs it.
	Request string
	// Tool is the tool's Name or RecordedAs.
	Tool string
	// Args is a JSON object. Empty and null mean an object without members.
	Args json.RawMessage

	// MaxWait bounds how long the call waits for a twin. Default: the tool's MaxWait.
	MaxWait time.Duration
	// LookFirst expects a replay: see [dedup.Call].
	LookFirst bool
}

// InvocationOf returns the call that a tool's Run with ctx serves. Its Key is the key of the call's
// record, empty for a call without a record, and its Tool is the tool's Name. Scope, Session, Turn
// and CallID are as they arrived. A handler behind the middleware of package httpdedup or mcpdedup
// has an Invocation too.
//
// It is zero in any other context, and in the Perform of an ExternalTool whose operation another
// process began. There, use Scope and CallKey of the [external.Attempt].
func InvocationOf(ctx context.Context) Invocation {
	inv, _ := ctx.Value(door.InvocationKey{}).(Invocation)
	return inv
}

// Answer is the answer to a call.
type Answer struct {
	// JSON is the result. A call with a key has the recorded text, the same bytes for every caller.
	JSON json.RawMessage
	// Key is the call's key, empty if the call has none.
	Key string
	// Replayed reports that the result came from the record. CreatedAt is when the record was
	// written, by the database's clock, and ExpiresAt is the end of its replay. The times are zero
	// without a record, and ExpiresAt is zero if the answer is not kept.
	Replayed             bool
	CreatedAt, ExpiresAt time.Time
	// Recovered reports that the reply to this call's own COMMIT was lost and its record was found.
	// Replayed is true too. The call took effect if !Replayed || Recovered.
	Recovered bool
}

// Invoke makes a call. The package documentation lists the errors. With an error, the answer has
// the key; if a record explains the error (refused, expired, reused), it also has everything but
// the result.
//
// Cancelling ctx ends the call as it ends [dedup.Do]. A tool's Run, or any other effect, must not
// call Invoke, whatever the classes: that is [dedup.ErrInvalid].
func (r *Registry) Invoke(ctx context.Context, inv Invocation) (Answer, error) {
	c, err := r.prepare(inv)
	if err == nil {
		err = refuseEffect(ctx)
	}
	if err != nil {
		return Answer{}, err
	}
	return r.make(ctx, c)
}

// call is an invocation whose tool is known and whose arguments fit.
type call struct {
	dedup.Call
	inv Invocation
	of  *definition
	// args are all the arguments, as encoding/json reads them.
	args json.RawMessage
	// siblings is zero if the caller gave no message.
	siblings
}

// prepare makes a call of an invocation. Its key may still be missing.
func (r *Registry) prepare(inv Invocation) (*call, error) {
	t := r.find(inv.Tool)
	if t == nil {
		return nil, unknownTool(inv.Tool)
	}
	return t.call(inv)
}

// refuseEffect refuses a nil context and the context of an effect.
func refuseEffect(ctx context.Context) error {
	if ctx == nil {
		return &dedup.InvalidError{What: "call", Field: "ctx", Missing: true, Reason: "must not be nil"}
	}
	if guard.Inside(ctx) {
		return &dedup.InvalidError{What: "call", Field: "ctx", Reason: "is an effect's; a tool cannot call Invoke"}
	}
	return nil
}

func (t *definition) call(inv Invocation) (*call, error) {
	in := reflect.New(t.In)
	all, compared, err := t.plan.decode(t.Name, door.Args(inv.Args), in.Interface())
	if err != nil {
		return nil, err
	}
	c := &call{inv: inv, of: t, args: all}
	if t.Class == ReadOnly {
		return c, nil
	}
	c.Call = dedup.Call{
		Scope: inv.Scope, Tool: t.RecordedAs, Args: compared, Retention: t.Retention, MaxWait: cmp.Or(inv.MaxWait, t.maxWait), StoreErrors: t.storeErrors,
		LookFirst: inv.LookFirst,
	}
	if inv.Scope == "" {
		return nil, &dedup.InvalidError{What: "call", Field: "Scope", Missing: true, Reason: "is empty; give the authenticated principal that the call belongs to"}
	}
	key, err := t.plan.keyOf(t.Name, in.Elem())
	if err != nil {
		return nil, err
	}
	c.Key = cmp.Or(key, inv.Key)
	return c, nil
}

// isOnce reports whether the request and the arguments make the key.
func (c *call) isOnce() bool { return c.of.oncePerRequest && c.Key == "" && c.inv.Request != "" }

// withAttrs adds the session and the turn to the attributes of the call's trace events.
func (inv *Invocation) withAttrs(ctx context.Context) context.Context {
	switch {
	case inv.Session == "":
		return ctx
	case inv.Turn == 0:
		return dedup.WithAttrs(ctx, slog.String("session", inv.Session))
	}
	return dedup.WithAttrs(ctx, slog.String("session", inv.Session), slog.Int("turn", inv.Turn))
}

// make makes a call. A call without a key gets the key of its request or of its id.
func (r *Registry) make(ctx context.Context, c *call) (Answer, error) {
	ctx = c.inv.withAttrs(ctx)
	if c.isOnce() {
		args, err := dedup.FingerprintOf(c.Args)
		if err == nil {
			c.Key, err = dedup.KeyFromIntent("once per request", c.inv.Request, c.Tool, args.String(), strconv.Itoa(c.nth))
		}
		if err != nil {
			return Answer{}, err
		}
	}
	if c.Key != "" || c.of.Class == ReadOnly || c.inv.Session == "" {
		return r.run(ctx, c)
	}
	return r.runByID(ctx, c)
}

// run makes a call in the way of its tool's class.
func (r *Registry) run(ctx context.Context, c *call) (Answer, error) {
	inv := c.inv
	inv.Tool, inv.Key = c.of.Name, c.Key
	ctx = context.WithValue(ctx, door.InvocationKey{}, inv)
	var result dedup.Result[json.RawMessage]
	var err error
	switch t := c.of; {
	case t.external != nil:
		result, err = r.opts.External.Do(ctx, c.Call, c.args)
	case t.Class == ReadOnly:
		return r.runReadOnly(ctx, t, c)
	case c.Key == "" && !t.Class.NeedsKey():
		return r.runUnrecorded(ctx, t, c, pgx.TxOptions{})
	default:
		result, err = dedup.Do(ctx, r.d, c.Call, t.effect(c.args))
	}
	if err == nil && result.Replayed && door.IsOfMiddleware(result.Value) {
		err = &dedup.InvalidError{What: "result", Reason: "was recorded when the tool was behind a Middleware of package mcpdedup", Stored: result.Value}
		result.Value = nil
	}
	return answerOf(c, result), err
}

// runReadOnly runs a call that must not write. BEGIN and the SELECT go in one trip: after a query,
// Postgres refuses SET TRANSACTION READ WRITE.
func (r *Registry) runReadOnly(ctx context.Context, t *definition, c *call) (Answer, error) {
	answer, err := r.runUnrecorded(ctx, t, c, pgx.TxOptions{BeginQuery: "BEGIN READ ONLY; SELECT 1"})
	var server *pgconn.PgError
	if errors.As(err, &server) && server.Code == "25006" {
		return answer, readOnlyError(t.Name, server.Message)
	}
	return answer, err
}

// runUnrecorded runs a call without a record, in a transaction of the library's. A [dedup.Final]
// error of the tool becomes the same refusal as with a record, and is not kept.
func (r *Registry) runUnrecorded(ctx context.Context, t *definition, c *call, opts pgx.TxOptions) (Answer, error) {
	text, err := door.Once(ctx, r.d, t.Name, opts, t.effect(c.args))
	if refusal := r.d.Refusal(err); refusal != nil {
		err = refusal // the same type as with a record
	} else if inner, ok := errors.AsType[*dedup.InvalidError](err); ok && inner.What == "call" {
		err = &dedup.InvalidError{What: "effect", Reason: "of " + t.Name + " made an invalid call", Err: err}
	}
	return Answer{JSON: text}, err
}

// answerOf returns the answer of a call with a key, with or without an error.
func answerOf(c *call, result dedup.Result[json.RawMessage]) Answer {
	return Answer{
		JSON: result.Value, Key: c.Key,
		Replayed: result.Replayed, Recovered: result.Recovered, CreatedAt: result.CreatedAt, ExpiresAt: result.ExpiresAt,
	}
}
