package outside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// Charge is a request to the provider, and Charged its answer.
type (
	Charge  struct{ Op int }
	Charged struct{ ID string }
)

// tool returns the arm's tool of a name.
func (c *caller) tool(name string) external.Tool[Charge, Charged] {
	t := external.Tool[Charge, Charged]{
		Name: name, Timeout: leases(timeout), KeyKept: leases(c.Arm.KeyKept), Settles: leases(c.Arm.Settles),
		Ref: func(out Charged) string { return out.ID },
		Finish: func(ctx context.Context, tx pgx.Tx, in Charge, out Charged) error {
			return c.write(ctx, tx, name, finished, in.Op, out.ID)
		},
		Refused: func(ctx context.Context, tx pgx.Tx, in Charge, _ error) error {
			return c.write(ctx, tx, name, declined, in.Op, "")
		},
		Perform: func(ctx context.Context, at external.Attempt, in Charge) (Charged, error) {
			return c.perform(ctx, operation{name, in.Op}, at)
		},
	}
	if c.earlier() {
		t.KeyKept, t.Settles = 0, 0
	}
	if c.Arm.Find && !c.earlier() {
		t.Find = func(ctx context.Context, _ external.Attempt, in Charge) (found []Charged, err error) {
			err = c.find(ctx, operation{name, in.Op}, &found)
			return found, err
		}
	}
	return t
}

// earlierCharged is the result of the earlier release.
type earlierCharged struct{ Charge string }

func earlierTool(t external.Tool[Charge, Charged]) external.Tool[Charge, earlierCharged] {
	return external.Tool[Charge, earlierCharged]{
		Name: t.Name, Timeout: t.Timeout, Ref: func(out earlierCharged) string { return out.Charge }, Refused: t.Refused,
		Finish: func(ctx context.Context, tx pgx.Tx, in Charge, out earlierCharged) error {
			return t.Finish(ctx, tx, in, Charged{out.Charge})
		},
		Perform: func(ctx context.Context, a external.Attempt, in Charge) (earlierCharged, error) {
			out, err := t.Perform(ctx, a, in)
			return earlierCharged{out.ID}, err
		},
	}
}

// earlier reports whether this process runs the earlier release.
func (c *caller) earlier() bool { return c.Arm.Releases && c.Number == 0 }

// write notes an effect or a refusal, and adds to a row that another transaction may hold locked.
func (c *caller) write(ctx context.Context, tx pgx.Tx, tool, kind string, op int, ref string) error {
	exec := tx.Exec
	if c.Arm.Control == writesBeside {
		exec = c.beside.Exec
	}
	if _, err := exec(ctx, insertLocal, tool, kind, op, ref); err != nil {
		return err
	}
	if !c.Arm.Locks {
		return nil
	}
	_, err := tx.Exec(ctx, `UPDATE public.balance SET written = written + 1 WHERE account = $1`, op%accounts)
	return err
}

func (c *caller) perform(ctx context.Context, of operation, at external.Attempt) (Charged, error) {
	key, claimed := at.Key, c.claimedAt(of.Tool, at.CallKey)
	if c.Arm.KeyKept == 0 || c.earlier() {
		key = ""
	}
	switch c.Arm.Control {
	case triesInside:
		return c.tryThrice(ctx, of, claimed)
	case keyPerAttempt:
		key += claimed.String()
	}
	out, err := c.charge(ctx, of, key, claimed)
	if c.Arm.Control == statusRefuses && err != nil && !errors.As(err, new(*url.Error)) {
		err = dedup.Final(err)
	}
	return out, err
}

func (c *caller) charge(ctx context.Context, of operation, key string, claimed time.Time) (out Charged, err error) {
	header := http.Header{claimedHeader: {strconv.FormatInt(claimed.UnixNano(), 10)}}
	if key != "" {
		header.Set(keyHeader, key)
	}
	if !c.earlier() {
		header.Set(markerHeader, "later release")
	}
	err = fetch(ctx, c.web, http.MethodPost, c.charges(of), header, &out)
	return out, err
}

// find looks an effect up. It tells a provider that rejects used keys when the row has the
// rejection.
func (c *caller) find(ctx context.Context, of operation, found *[]Charged) error {
	header := http.Header{}
	if c.Arm.Rejects {
		var stored bool
		if err := c.client.Pool.QueryRow(ctx, rejectionStored, of.Tool, of.Op).Scan(&stored); err != nil {
			return err
		}
		if stored {
			header.Set(existsHeader, "the row has it")
		}
	}
	return fetch(ctx, c.web, http.MethodGet, c.charges(of), header, found)
}

func (c *caller) charges(of operation) string {
	return fmt.Sprintf("%s/charges?tool=%s&op=%d", c.Provider, of.Tool, of.Op)
}

var errDeclined = errors.New("declined")

// fetch makes a request and decodes its answer.
func fetch(ctx context.Context, web *http.Client, method, url string, header http.Header, into any) error {
	res, answer, err := lab.Ask(ctx, web, method, url, header, nil)
	if err != nil {
		return err
	}
	switch res.StatusCode {
	case http.StatusOK:
		return json.Unmarshal(answer, into)
	case http.StatusPaymentRequired:
		return dedup.Final(errDeclined)
	case http.StatusUnprocessableEntity:
		return external.ErrExists
	case http.StatusTooManyRequests:
		return external.NotDone(errors.New(res.Status))
	}
	return errors.New(res.Status) // a 409 too: the first request still runs
}

// tryThrice is a common mistake: it takes a time-out for a failure.
func (c *caller) tryThrice(ctx context.Context, of operation, claimed time.Time) (out Charged, err error) {
	for range 3 {
		ctx, cancel := context.WithTimeout(ctx, lease/5)
		out, err = c.charge(ctx, of, "", claimed)
		cancel()
		if err == nil || errors.Is(err, errDeclined) {
			break
		}
	}
	return out, err
}

// lease is a common replacement of the library: a caller that finds the lease expired runs again.
func (c *caller) lease(ctx context.Context, op int) (string, error) {
	for {
		var mine bool
		var answer *string
		err := c.client.Pool.QueryRow(ctx, `
			WITH mine AS (
				INSERT INTO leased (op, until) VALUES ($1, clock_timestamp() + $2::interval)
				ON CONFLICT (op) DO UPDATE SET until = EXCLUDED.until WHERE leased.answer IS NULL AND leased.until < clock_timestamp()
				RETURNING op)
			SELECT EXISTS (SELECT FROM mine), (SELECT answer FROM leased WHERE op = $1)`, op, lease).Scan(&mine, &answer)
		switch {
		case err != nil:
			return "", err
		case answer != nil:
			return *answer, nil
		case !mine && !lab.Pause(ctx, lease/20):
			return "", ctx.Err()
		case !mine:
			continue
		}
		c.at(external.EventSending)
		out, err := c.charge(ctx, operation{c.Arm.Name, op}, "", time.Now())
		if err != nil && !errors.Is(err, errDeclined) {
			return "", err
		}
		c.at(external.EventAnswered)
		_, err = c.client.Pool.Exec(ctx, `UPDATE leased SET answer = $2 WHERE op = $1`, op, out.ID)
		return out.ID, err
	}
}

// saga reserves, charges and ships. After a refusal it undoes the steps before.
func (c *caller) saga(ctx context.Context, op int) error {
	step := func(tool string) func(context.Context) error {
		return func(ctx context.Context) (err error) {
			if tool != sagaReserve && tool != sagaRelease {
				_, err = c.outside(ctx, tool, op)
				return err
			}
			call := callOf(op)
			call.Tool, call.Args = tool, Charge{op}
			_, err = dedup.Do(ctx, c.client.D, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
				_, err := tx.Exec(ctx, insertLocal, tool, finished, op, "")
				return op, err
			})
			return err
		}
	}
	return external.Saga(ctx,
		external.Step{Name: "reserve", Do: step(sagaReserve), Undo: step(sagaRelease)},
		external.Step{Name: "charge", Do: step(sagaCharge), Undo: step(sagaRefund)},
		external.Step{Name: "ship", Do: step(sagaShip)},
	)
}

// local has the application's tables: the writes of Finish and Refused, and in balance the rows
// that get locked. leased belongs to the control without the library.
const schema = `
CREATE TABLE IF NOT EXISTS local (tool text NOT NULL, kind text NOT NULL, op int NOT NULL, ref text NOT NULL);
CREATE TABLE IF NOT EXISTS balance (account int PRIMARY KEY, written int NOT NULL);
INSERT INTO balance SELECT n, 0 FROM generate_series(0, 7) AS n ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS leased (op int PRIMARY KEY, until timestamptz NOT NULL, answer text);`

// accounts is the number of rows of balance.
const accounts = 8

// forgetting removes from a row the state of its attempts, and notes a rejection elsewhere.
const forgetting = `
CREATE OR REPLACE FUNCTION forgets() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.confirmed THEN
        INSERT INTO public.local VALUES (NEW.tool, 'rejected', NEW.key::int, '');
    END IF;
    NEW.keyless = false;
    NEW.unmarked = false;
    NEW.confirmed = false;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER forgets BEFORE INSERT OR UPDATE ON tool_effect FOR EACH ROW EXECUTE FUNCTION forgets();`

// rejectionStored reads whether a row has the rejection of its key, or had it before it was removed.
const rejectionStored = `
SELECT EXISTS (SELECT FROM public.tool_effect WHERE tool = $1 AND key = $2::int::text AND confirmed)
    OR EXISTS (SELECT FROM public.local WHERE tool = $1 AND kind = 'rejected' AND op = $2::int)`

const finished, declined = "finish", "refused"

const insertLocal = `INSERT INTO public.local (tool, kind, op, ref) VALUES ($1, $2, $3, $4)`
