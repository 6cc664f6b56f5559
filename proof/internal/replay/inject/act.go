package inject

import (
	"context"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/proof/internal/replay/plan"
)

// wireKind is what the proxy does to the unit that is hit.
func wireKind(f plan.Fault) faultproxy.Kind {
	switch f.Kind {
	case plan.CutBeforeCommit:
		return faultproxy.Dropped
	case plan.DelayedCommit:
		return faultproxy.Delayed
	case plan.LostAnswer, plan.LostReply, plan.BetweenNodes:
		if f.How == plan.CommitUnsent {
			return faultproxy.Dropped
		}
		return map[plan.How]faultproxy.Kind{
			plan.Reset: faultproxy.ReplyReset, plan.Close: faultproxy.ReplyClosed, plan.Cut: faultproxy.ReplyCut,
		}[f.How]
	}
	if f.How == plan.Committed {
		return faultproxy.ReplyDelayed
	}
	return faultproxy.Hold // Terminate and Kill
}

// hit is a fault that has met its unit; for those that hold, the unit is held.
type hit struct {
	round *Round
	fault *fault
	at    int
	armed *faultproxy.Armed
	// sensor is a fault that does nothing and tells of a retry; nil unless the
	// fault is a DelayedCommit.
	sensor *faultproxy.Armed
}

// action is what the driver does about a hit; nil where the proxy does it all.
func action(f plan.Fault) func(context.Context, *hit) error {
	switch f.Kind {
	case plan.Terminate:
		return terminate
	case plan.Kill:
		return kill
	case plan.DelayedCommit:
		return deliverLate
	default:
		return nil
	}
}

// terminate ends the backend that waits for the held unit. The worker learns of
// it by the server's last message, as after an administrator's command. Where
// the backend has gone by itself, nothing is counted.
func terminate(ctx context.Context, h *hit) error {
	defer h.armed.Release()
	done, err := h.round.targets.Terminate(ctx, h.at)
	if err != nil || !done {
		return err
	}
	h.fault.applied.Add(1)
	return h.armed.WaitSettled(ctx)
}

// kill ends the worker's process where the plan wants it. What then becomes of
// the held unit is what a network might do with it.
func kill(_ context.Context, h *hit) error {
	defer h.armed.Release()
	if h.round.targets.Kill(h.at) {
		h.fault.applied.Add(1)
	}
	if h.fault.How == plan.CommitUnsent {
		h.round.targets.Proxy(h.at).CutAll()
	}
	return nil
}

// sense arms a fault without effect that is applied when the worker that was
// hit tries again.
func (r *Round) sense(f *fault, at int) *faultproxy.Armed {
	sensor := r.targets.Proxy(at).Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: f.aim.retry(at)})
	sensor.Release()
	return sensor
}

// deliverLate lets a COMMIT go whose client has left, once a retry runs.
func deliverLate(ctx context.Context, h *hit) error {
	defer h.armed.Release()
	if h.round.await(ctx, h.sensor.Applied()) {
		h.fault.applied.Add(1)
	}
	return nil
}
