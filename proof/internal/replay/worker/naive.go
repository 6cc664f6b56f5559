package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tooldedup/dedup/proof/internal/world/kit"
	"github.com/tooldedup/dedup/tool"
)

// The naive wrapper makes as many attempts as dedup does by default.
const (
	naiveAttempts = 12
	naivePause    = 10 * time.Millisecond
)

// naive runs a tool as an ordinary wrapper does: a transaction, and after any
// error another one, until there is an answer. A read is run once.
func (d *domain) naive(ctx context.Context, t kit.Tool, args json.RawMessage) (result json.RawMessage, err error) {
	if t.Class == tool.ReadOnly {
		return d.plain(ctx, t, args)
	}
	var refusal *kit.Refusal
	for range naiveAttempts {
		if result, err = d.plain(ctx, t, args); err == nil || errors.As(err, &refusal) {
			return result, err
		}
		timer := time.NewTimer(rand.N(naivePause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
	return nil, fmt.Errorf("gave up after %d attempts: %w", naiveAttempts, err)
}
