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

// Invocation is a call of a registered tool, as it came from a model, an
// orchestrator or a client.
type Invocation struct {
	// Scope is the principal on whose behalf the tool runs, taken from its
	// authentication and never from the arguments. Required for all but
	// ReadOnly tools.
	Scope string
	// Session, Turn and CallID say where in a conversation the call was made:
	// see [dedup.KeyFromToolCall]. They make the key where there is no other. CallID
	// is the id as the provider sent it. Where that names no call
	// ([dedup.UsableToolCallID]), Turn counts from 1, or the message is handed over with
	// InvokeAll: a Turn of 0 beside it says nothing, and makes no key.
	Session string
	Turn    int
	CallID  string
	// Key names the intent, as its caller made it.
	Key string
	// Request names the user's request that the model works on, within Scope. A tool with
	// OncePerRequest needs it.
	Request string
	// Tool is the tool's name, or the one that its calls are recorded as.
	Tool string
	// Args is a JSON object. Nothing at all and null count as one without members.
	Args json.RawMessage

	// MaxWait bounds how long the call waits for a twin, in place of the tool's MaxWait. Default
	// that of the tool.
	MaxWait time.Duration
	// LookFirst expects a replay: see [dedup.Call].
	LookFirst bool
}

// InvocationOf returns the call whose Run has ctx: its Key is the one that it is recorded by, empty if it
// has no record, and its Tool is the tool's Name. Scope, Session, Turn and CallID are as they came
// through the door. A handler behind the middlewares of packages httpdedup and mcpdedup has one
// too. Elsewhere it is zero, and so it is in the Perform of an ExternalTool that another process
// began: use Scope and CallKey of the [external.Attempt] there.
func InvocationOf(ctx context.Context) Invocation {
	inv, _ := ctx.Value(door.InvocationKey{}).(Invocation)
	return inv
}

// Answer is what a call answers.
type Answer struct {
	// JSON is the result. For calls with a key it is the recorded text, byte for
	// byte the same for every caller.
	JSON json.RawMessage
	// Key is the call's key, empty where it had none.
	Key string
	// Replayed says that the result came from the record, FirstAt when that was
	// written, by the database's clock, and ExpiresAt until when it is replayed.
	// The times are zero where there is no record.
	Replayed           bool
	FirstAt, ExpiresAt time.Time
	// Recovered says that the answer to this call's own COMMIT was lost and its
	// record found: Replayed is true too. Count effects by !Replayed || Recovered.
	Recovered bool
}

// Invoke makes a call. The package documentation lists the errors. Beside an
// error the answer has the key, and where a record explains the error (refused,
// expired, reused) all but the result.
//
// Cancelling ctx ends the call as it does [dedup.Do]. A tool's Run must not call
// Invoke, whatever the classes, nor must any other effect: that is a [dedup.ErrInvalid].
func (r *Registry) Invoke(ctx context.Context, inv Invocation) (Answer, error) {
	c, err := r.prepare(inv)
	if err == nil {
		err = outside(ctx)
	}
	if err != nil {
		return Answer{}, err
	}
	return r.make(ctx, c)
}

// call is an invocation that its tool has checked.
type call struct {
	dedup.Call
	inv Invocation
	of  *definition
	run dedup.Effect[json.RawMessage] // nil of an ExternalTool, which has args
	// args are all arguments, as encoding/json reads them.
	args json.RawMessage
	// siblings is zero where no message was handed over.
	siblings
}

// prepare makes a call of an invocation, whose key may still be missing.
func (r *Registry) prepare(inv Invocation) (*call, error) {
	t := r.find(inv.Tool)
	if t == nil {
		return nil, unknownTool(inv.Tool)
	}
	return t.call(inv)
}

// outside refuses the context of an effect.
func outside(ctx context.Context) error {
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
	if t.effect != nil {
		c.run = t.effect(in.Elem())
	}
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

// withAttrs says in the events of a call where in its conversation it was made.
func (inv *Invocation) withAttrs(ctx context.Context) context.Context {
	switch {
	case inv.Session == "":
		return ctx
	case inv.Turn == 0:
		return dedup.WithAttrs(ctx, slog.String("session", inv.Session))
	}
	return dedup.WithAttrs(ctx, slog.String("session", inv.Session), slog.Int("turn", inv.Turn))
}

// make makes a call, with the key that its id gives where it has no other.
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

// run makes a call by its class.
func (r *Registry) run(ctx context.Context, c *call) (Answer, error) {
	inv := c.inv
	inv.Tool, inv.Key = c.of.Name, c.Key
	ctx = context.WithValue(ctx, door.InvocationKey{}, inv)
	switch t := c.of; {
	case t.external != nil:
		result, err := r.opts.External.Do(ctx, c.Call, c.args)
		return answered(c, result), err
	case t.Class == ReadOnly:
		return r.runReading(ctx, t, c)
	case c.Key == "" && !t.Class.NeedsKey():
		return r.runOnce(ctx, t, c, pgx.TxOptions{})
	default:
		result, err := dedup.Do(ctx, r.d, c.Call, c.run)
		return answered(c, result), err
	}
}

// runReading runs a call that must not write. The SELECT goes along with BEGIN:
// after a query a transaction that is read-only stays so, whatever the tool sets.
func (r *Registry) runReading(ctx context.Context, t *definition, c *call) (Answer, error) {
	answer, err := r.runOnce(ctx, t, c, pgx.TxOptions{BeginQuery: "BEGIN READ ONLY; SELECT 1"})
	var server *pgconn.PgError
	if errors.As(err, &server) && server.Code == "25006" {
		return answer, wroteReading(t.Name, server.Message)
	}
	return answer, err
}

// runOnce runs a call without a record, in a transaction of its own. What it
// refuses with dedup.Final is told like a refusal with a record, and not kept.
func (r *Registry) runOnce(ctx context.Context, t *definition, c *call, opts pgx.TxOptions) (Answer, error) {
	text, err := door.Once(ctx, r.d, t.Name, opts, c.run)
	if refusal := r.d.Refusal(err); refusal != nil {
		err = refusal // as a tool with a record refuses
	}
	return Answer{JSON: text}, err
}

// answered is what a call with a key answers, also beside an error.
func answered(c *call, result dedup.Result[json.RawMessage]) Answer {
	return Answer{
		JSON: result.Value, Key: c.Key,
		Replayed: result.Replayed, Recovered: result.Recovered, FirstAt: result.CreatedAt, ExpiresAt: result.ExpiresAt,
	}
}
