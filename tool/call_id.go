package tool

import (
	"context"
	"errors"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// runByID makes a call whose key is that of its id, or where that names no call, of its
// arguments.
//
// An id that two calls of a message share is the key of the one that comes first to be
// recorded; the id and the arguments are that of any other. Where those are equal as well, the
// two are one call. Whether an id is shared cannot be
// decided by the message alone, since a part of it may be delivered again, in which the
// id occurs once. So every call with a usable id tries that first. Where its record is
// another call's, the call goes by its arguments if the message shows that the id is
// shared, or if it has gone by them before. Otherwise it stays refused: arguments that
// have changed on the way must not run again.
func (r *Registry) runByID(ctx context.Context, c *call) (_ Answer, err error) {
	if c.id() == "" {
		if c.inv.Turn == 0 && !c.inMessage {
			return r.run(ctx, c) // without a key, if its class lets it
		}
		if c.Key, err = c.keyFromArgs(); err != nil {
			return Answer{}, err
		}
		return r.run(ctx, c)
	}
	if c.Key, err = dedup.KeyFromToolCall(c.inv.Session, c.inv.Turn, c.inv.CallID); err != nil {
		return Answer{}, err
	}
	byArgs := *c // before a guard wraps its effect
	answer, err := r.run(ctx, c)
	if !isReused(err, c) {
		return answer, err
	}
	var keyErr error
	if byArgs.Key, keyErr = byArgs.keyFromArgs(); keyErr != nil {
		return answer, err
	}
	if !c.shared {
		known, lookErr := r.isKnown(ctx, &byArgs)
		if lookErr != nil {
			return answer, lookErr
		}
		if !known {
			return answer, err
		}
	}
	return r.run(ctx, &byArgs)
}

// id is the call's id where that can name it, else empty.
func (c *call) id() string {
	if dedup.UsableToolCallID(c.inv.CallID, c.inv.Tool) {
		return c.inv.CallID
	}
	return ""
}

// keyFromArgs returns the key of the call's arguments, together with the id that it
// shares: so no equal call with another id has it, whichever of them are delivered.
func (c *call) keyFromArgs() (string, error) {
	args := c.Args
	if id := c.id(); id != "" {
		args = []any{id, c.Args} // no other call's arguments, which are an object
	}
	return dedup.KeyFromToolCallArgs(c.inv.Session, c.inv.Turn, c.Tool, args, c.repeat)
}

// isReused reports whether err says that the call's own key has another call's record. A
// tool may return an error of calls that it makes elsewhere.
func isReused(err error, c *call) bool {
	var recorded *dedup.Error
	return errors.Is(err, dedup.ErrKeyReused) && errors.As(err, &recorded) && recorded.Tool == c.Tool && recorded.KeyHash == dedup.KeyHash(c.Key)
}

// isKnown reports whether a call has a record, or is on its way to one.
func (r *Registry) isKnown(ctx context.Context, c *call) (bool, error) {
	status, err := r.Status(ctx, Invocation{Scope: c.Scope, Tool: c.Tool, Key: c.Key})
	if c.of.external != nil {
		return status.State != external.None, err
	}
	return status.Record.State != dedup.StateNotFound, err
}
