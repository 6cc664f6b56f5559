package outside

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
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

const (
	keyHeader = "Idempotency-Key"
	// claimedHeader has when the attempt was claimed. An honest provider loses a request
	// that would take effect too long after that.
	claimedHeader = "Claimed"
)

var errDeclined = errors.New("declined")

// client makes requests of the provider.
type client struct {
	url  string
	http *http.Client
}

func newClient(url string) *client {
	return &client{url, &http.Client{Transport: &external.Transport{Base: &http.Transport{MaxIdleConnsPerHost: 64}}}}
}

func (c *client) charge(ctx context.Context, tool, key string, claimed time.Time, in Charge) (out Charged, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return out, external.NotDone(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/"+tool, bytes.NewReader(body))
	if err != nil {
		return out, external.NotDone(err)
	}
	req.Header.Set(claimedHeader, strconv.FormatInt(claimed.UnixNano(), 10))
	if key != "" {
		req.Header.Set(keyHeader, key)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return out, err
	}
	defer func() { _ = res.Body.Close() }()
	switch res.StatusCode {
	case http.StatusOK:
		return out, json.NewDecoder(res.Body).Decode(&out)
	case http.StatusPaymentRequired:
		return out, dedup.Final(errDeclined)
	case http.StatusTooManyRequests:
		return out, external.NotDone(errors.New(res.Status))
	case http.StatusConflict:
		return out, external.ErrPending
	}
	return out, errors.New(res.Status)
}

func (c *client) find(ctx context.Context, tool string, in Charge) (out []Charged, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/%s?op=%d", c.url, tool, in.Op), nil)
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, errors.New(res.Status)
	}
	return out, json.NewDecoder(res.Body).Decode(&out)
}

// tool is the arm's tool of a name.
func (p *process) tool(name string) external.Tool[Charge, Charged] {
	a := p.arm
	t := external.Tool[Charge, Charged]{
		Name: name, Timeout: leases(timeout, p.Lease), KeyKept: leases(a.keyKept, p.Lease), Settles: leases(a.declared(p.Bound), p.Lease),
		Ref: func(out Charged) string { return out.ID },
		Begin: func(ctx context.Context, tx pgx.Tx, in Charge) error {
			return note(ctx, tx, name, begun, in.Op, "")
		},
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

func (p *process) perform(ctx context.Context, tool string, at external.Attempt, in Charge) (out Charged, err error) {
	claimed := p.steps.claimedAt(tool, at)
	switch {
	case p.arm.control == triesInside:
		return p.tryThrice(ctx, tool, claimed, in)
	case p.arm.control == keyPerAttempt:
		return p.provider.charge(ctx, tool, fmt.Sprint(at.Key, at.Fence), claimed, in)
	case p.arm.keyKept != 0:
		return p.provider.charge(ctx, tool, at.Key, claimed, in)
	}
	return p.provider.charge(ctx, tool, "", claimed, in)
}

// tryThrice is what many clients do: they take a time-out for a failure.
func (p *process) tryThrice(ctx context.Context, tool string, claimed time.Time, in Charge) (out Charged, err error) {
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
func (p *process) saga(ctx context.Context, op int) error {
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

// local is the application's own table: what Begin, Finish and Refused have written.
// leased is that of the control arm without the library.
const localSchema = `
CREATE TABLE local (tool text NOT NULL, kind text NOT NULL, op int NOT NULL, ref text NOT NULL);
CREATE TABLE leased (op int PRIMARY KEY, until timestamptz NOT NULL, answer text);`

const begun, finished, declined = "begin", "finish", "refused"

func note(ctx context.Context, tx pgx.Tx, tool, kind string, op int, ref string) error {
	_, err := tx.Exec(ctx, `INSERT INTO public.local (tool, kind, op, ref) VALUES ($1, $2, $3, $4)`, tool, kind, op, ref)
	return err
}

// lease is what is often written instead of the library: whoever finds the lease over
// runs again.
func (p *process) lease(ctx context.Context, op int) (string, error) {
	for {
		tag, err := p.pool.Exec(ctx, `INSERT INTO leased (op, until) VALUES ($1, clock_timestamp() + $2::interval)
			ON CONFLICT (op) DO UPDATE SET until = EXCLUDED.until WHERE leased.answer IS NULL AND leased.until < clock_timestamp()`, op, p.Lease)
		if err != nil {
			return "", err
		}
		if tag.RowsAffected() > 0 {
			break
		}
		var answer *string
		if err := p.pool.QueryRow(ctx, `SELECT answer FROM leased WHERE op = $1`, op).Scan(&answer); err != nil {
			return "", err
		}
		if answer != nil {
			return *answer, nil
		}
		if err := wait(ctx, p.Lease/20); err != nil {
			return "", err
		}
	}
	p.steps.at(dedup.ExternalSending)
	out, err := p.provider.charge(ctx, p.arm.name, "", time.Now(), Charge{op})
	if err != nil && !errors.Is(err, errDeclined) {
		return "", err
	}
	p.steps.at(dedup.ExternalAnswered)
	_, err = p.pool.Exec(ctx, `UPDATE leased SET answer = $2 WHERE op = $1`, op, out.ID)
	return out.ID, err
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
