package tool

import (
	"context"
	"errors"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// runByID makes a call whose key comes from its id, or from its arguments if the id names no call.
//
// Different calls of one message can share an id. The first of them to be recorded has the id's
// key. The key of any other combines the id and the arguments. Calls with equal ids and equal
// arguments are one call.
//
// The message alone cannot show that an id is shared: a part of it, with the id in it once, may be
// delivered again. So every call with a usable id tries the id's key first. If that key has another
// call's record, the call may use the key of its arguments. It does if the message shows that the
// id is shared, or if the key of the arguments has a record already. Otherwise the call stays
// refused: arguments that changed on the way must not run again.
//
// The first call's record may go away before another's, by a Reset or because it is older. If the
// message shows that the id is shared, a call therefore first looks for a record under the key of
// its arguments. A part of the message that is delivered then does not show it.
func (r *Registry) runByID(ctx context.Context, c *call) (_ Answer, err error) {
	if c.id() == "" {
		if c.inv.Turn == 0 && !c.inMessage {
			return r.run(ctx, c) // without a key, if the class allows it
		}
		if c.Key, err = c.keyFromArgs(); err != nil {
			return Answer{}, err
		}
		return r.run(ctx, c)
	}
	if c.Key, err = dedup.KeyFromToolCall(c.inv.Session, c.inv.Turn, c.inv.CallID); err != nil {
		return Answer{}, err
	}
	byArgs := *c
	if byArgs.Key, err = byArgs.keyFromArgs(); err != nil {
		return Answer{}, err
	}
	if c.shared {
		if known, err := r.exists(ctx, &byArgs); err != nil {
			return Answer{}, err
		} else if known {
			return r.run(ctx, &byArgs)
		}
	}
	answer, err := r.run(ctx, c)
	if !isReused(err, c) {
		return answer, err
	}
	if !c.shared {
		known, lookErr := r.exists(ctx, &byArgs)
		if lookErr != nil {
			return answer, lookErr
		}
		if !known {
			return answer, err
		}
	}
	return r.run(ctx, &byArgs)
}

// id returns the call's id, or "" if the id cannot name a call.
func (c *call) id() string {
	if dedup.UsableToolCallID(c.inv.CallID, c.inv.Tool) {
		return c.inv.CallID
	}
	return ""
}

// keyFromArgs returns the key of the call's arguments. If the call has a usable id, the key covers
// the id too: an equal call with another id has another key, whichever of the two is delivered.
func (c *call) keyFromArgs() (string, error) {
	args := c.Args
	if id := c.id(); id != "" {
		args = []any{id, c.Args} // an array, so equal to no call's arguments, which are an object
	}
	return dedup.KeyFromToolCallArgs(c.inv.Session, c.inv.Turn, c.Tool, args, c.repeat)
}

// isReused reports whether err says that the call's own key has another call's record. The tool may
// return such an error about a call that it made elsewhere: the tool and the key must match.
func isReused(err error, c *call) bool {
	var recorded *dedup.Error
	return errors.Is(err, dedup.ErrKeyReused) && errors.As(err, &recorded) && recorded.Tool == c.Tool && recorded.KeyHash == dedup.KeyHash(c.Key)
}

// exists reports whether the call has a record, or an operation that is still running.
func (r *Registry) exists(ctx context.Context, c *call) (bool, error) {
	status, err := r.Status(ctx, Invocation{Scope: c.Scope, Tool: c.Tool, Key: c.Key})
	if c.of.external != nil {
		return status.State != external.StateNone, err
	}
	return status.Record.State != dedup.StateNotFound, err
}
