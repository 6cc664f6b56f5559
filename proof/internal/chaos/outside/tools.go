package outside

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// Charge is what is asked of the provider, and Charged what it answers.
type (
	Charge struct {
		Op int `json:"op"`
	}
	Charged struct {
		ID string `json:"id"`
	}
)

// tool is the arm's tool of a name.
func (p *caller) tool(name string) external.Tool[Charge, Charged] {
	a := p.arm
	t := external.Tool[Charge, Charged]{
		Name: name, Timeout: leases(timeout, p.Lease), KeyKept: leases(a.keyKept, p.Lease), Settles: leases(a.declared(p.Bound), p.Lease),
		Ref: func(out Charged) string { return out.ID },
		Finish: func(ctx context.Context, tx pgx.Tx, in Charge, out Charged) error {
			return note(ctx, tx, name, finished, in.Op, out.ID)
		},
		Refused: func(ctx context.Context, tx pgx.Tx, in Charge, _ error) error {
			return note(ctx, tx, name, declined, in.Op, "")
		},
		Perform: func(ctx context.Context, at external.Attempt, in Charge) (Charged, error) {
			return p.perform(ctx, name, at, in)
		},
	}
	if a.find {
		t.Find = func(ctx context.Context, _ external.Attempt, in Charge) ([]Charged, error) {
			return p.provider.find(ctx, name, in)
		}
	}
	return t
}

func (p *caller) perform(ctx context.Context, tool string, at external.Attempt, in Charge) (out Charged, err error) {
	claimed := p.steps.claimedAt(tool, at)
	switch {
	case p.arm.control == triesInside:
		return p.tryThrice(ctx, tool, claimed, in)
	case p.arm.control == keyPerAttempt:
		return p.provider.charge(ctx, tool, fmt.Sprint(at.Key, claimed.UnixNano()), claimed, in)
	case p.arm.control == statusRefuses:
		out, err = p.provider.charge(ctx, tool, at.Key, claimed, in)
		if err != nil && !errors.As(err, new(*url.Error)) {
			err = dedup.Final(err)
		}
		return out, err
	case p.arm.keyKept != 0:
		return p.provider.charge(ctx, tool, at.Key, claimed, in)
	}
	return p.provider.charge(ctx, tool, "", claimed, in)
}

// tryThrice is what many clients do: they take a time-out for a failure.
func (p *caller) tryThrice(ctx context.Context, tool string, claimed time.Time, in Charge) (out Charged, err error) {
	for range 3 {
		ctx, cancel := context.WithTimeout(ctx, p.Lease/5)
		out, err = p.provider.charge(ctx, tool, "", claimed, in)
		cancel()
		if err == nil || errors.Is(err, errDeclined) {
			return out, err
		}
	}
	return out, err
}

// saga reserves, charges and ships, and takes back what a refusal makes pointless.
func (p *caller) saga(ctx context.Context, op int) error {
	outside := func(tool string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := p.outside(ctx, tool, op)
			return err
		}
	}
	inside := func(tool string) func(context.Context) error {
		return func(ctx context.Context) error {
			call := callOf(op)
			call.Tool, call.Args = tool, Charge{op}
			_, err := dedup.Do(ctx, p.d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
				return op, note(ctx, tx, tool, finished, op, "")
			})
			return err
		}
	}
	return external.Saga(ctx,
		external.Step{Name: "reserve", Do: inside(sagaReserve), Undo: inside(sagaRelease)},
		external.Step{Name: "charge", Do: outside(sagaCharge), Undo: outside(sagaRefund)},
		external.Step{Name: "ship", Do: outside(sagaShip)},
	)
}

// local is the application's own table: what Finish and Refused have written.
// leased is that of the control arm without the library.
const localSchema = `
CREATE TABLE local (tool text NOT NULL, kind text NOT NULL, op int NOT NULL, ref text NOT NULL);
CREATE TABLE leased (op int PRIMARY KEY, until timestamptz NOT NULL, answer text);`

const finished, declined = "finish", "refused"

func note(ctx context.Context, tx pgx.Tx, tool, kind string, op int, ref string) error {
	_, err := tx.Exec(ctx, `INSERT INTO public.local (tool, kind, op, ref) VALUES ($1, $2, $3, $4)`, tool, kind, op, ref)
	return err
}
