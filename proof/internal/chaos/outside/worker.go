package outside

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const workerName = "chaos-external-worker"

// task is a worker's task. Provider is the provider's URL.
type task struct {
	URL, Provider string
	Arm           arm
	Number        int // of the worker
	Calm          bool
}

// outcome is a caller's answer.
type outcome string

const (
	happened  outcome = "happened"
	refused   outcome = "refused"
	parked    outcome = "parked"
	undone    outcome = "undone" // a saga
	unsettled outcome = "unsettled"
	// unnamed is an error that does not leave the outcome open. No call may get it.
	unnamed outcome = "unnamed"
)

// reply is a worker's answer to a call. ID is the provider's ID of the effect.
type reply struct {
	Outcome   outcome
	ID, Error string
}

// Worker returns the hidden command of a worker process. It makes the requested calls and recovers
// operations that are due.
func Worker() *cobra.Command { return lab.WorkerCommand(workerName, new(caller).open) }

// caller is the inside of a worker process.
type caller struct {
	task
	client  *lab.Client
	beside  *pgxpool.Pool // of the control writesBeside: Finish must not wait for a connection
	web     *http.Client  // to the provider
	tools   *external.Tools
	handles map[string]*external.Handle[Charge, Charged] // by tool
	claimed sync.Map                                     // times by tool and key, of the last attempt
}

func (c *caller) open(ctx context.Context, t task) (_ http.Handler, done func() error, err error) {
	c.task, c.handles = t, map[string]*external.Handle[Charge, Charged]{}
	c.web = &http.Client{Transport: &external.Transport{Base: &http.Transport{MaxIdleConnsPerHost: 64}}}
	c.client, err = lab.OpenClient(ctx, t.URL, conns, pgx.QueryExecModeCacheStatement, &dedup.Options{Tracer: c})
	if err != nil {
		return nil, nil, err
	}
	if t.Arm.Control == writesBeside {
		if c.beside, err = lab.OpenPool(ctx, t.URL, conns, pgx.QueryExecModeCacheStatement); err != nil {
			return nil, nil, err
		}
	}
	if c.tools, err = external.New(c.client.D, &external.Options{Lease: lease}); err != nil {
		return nil, nil, err
	}
	for _, name := range t.Arm.tools() {
		if c.earlier() {
			_, err = external.Add(c.tools, earlierTool(c.tool(name)))
		} else {
			c.handles[name], err = external.Add(c.tools, c.tool(name))
		}
		if err != nil {
			return nil, nil, err
		}
	}
	recovering, end := context.WithCancel(ctx)
	var recovery sync.WaitGroup
	recovery.Go(func() { _ = c.tools.Recover(recovering) }) // its error is that the tools are closed
	return c, func() error {
		end()
		recovery.Wait()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lab.Patience)
		defer cancel()
		if c.beside != nil {
			defer c.beside.Close()
		}
		return errors.Join(c.tools.Close(ctx), c.client.Close())
	}, nil
}

// patience is the time, in leases, that a caller's first try waits for an answer. Each later try
// waits longer.
const patience = 6

// ServeHTTP makes a call and replies with its outcome.
func (c *caller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	op, _ := strconv.Atoi(r.FormValue("op"))
	try, _ := strconv.Atoi(r.FormValue("try"))
	ctx, cancel := context.WithTimeout(r.Context(), leases(patience*float64(try+1)))
	defer cancel()
	var a reply
	var err error
	switch {
	case c.Arm.Control == leaseThenAgain:
		a.ID, err = c.lease(ctx, op)
	case c.Arm.Saga:
		err = c.saga(ctx, op)
	default:
		a.ID, err = c.outside(ctx, c.Arm.Name, op)
	}
	c.at("returned")
	a.Outcome = c.outcome(err)
	if err != nil {
		a.Error = err.Error()
	}
	_ = json.NewEncoder(w).Encode(a) // a caller without the reply asks again
}

func (c *caller) outcome(err error) outcome {
	switch {
	case err == nil:
		return happened
	case errors.As(err, new(*external.UndoneError)):
		return undone
	case errors.Is(err, dedup.ErrRefused):
		return refused
	case errors.As(err, new(*external.ParkedError)):
		return parked
	case dedup.IsRetryable(err), c.Arm.Saga, c.Arm.Control == leaseThenAgain: // the errors of these two have no names
		return unsettled
	}
	return unnamed
}

func callOf(op int) dedup.Call { return dedup.Call{Scope: "chaos", Key: fmt.Sprint(op)} }

// acceptEvery selects the operations that are accepted before they are called.
const acceptEvery = 4

// outside makes a call. For some operations a transaction accepts the intent before.
func (c *caller) outside(ctx context.Context, tool string, op int) (string, error) {
	if op%acceptEvery == 0 && !c.earlier() {
		_ = pgx.BeginFunc(ctx, c.client.Pool, func(tx pgx.Tx) error { // Do claims even if this fails
			_, err := c.handles[tool].Accept(ctx, tx, callOf(op), Charge{op})
			c.at("accepted")
			return err
		})
	}
	if !c.Arm.Releases {
		r, err := c.handles[tool].Do(ctx, callOf(op), Charge{op})
		return r.Value.ID, err
	}
	call, out := callOf(op), struct {
		Charged
		earlierCharged
	}{} // either release may have recorded it
	call.Tool, call.Args = tool, Charge{op}
	r, err := c.tools.Do(ctx, call, fmt.Appendf(nil, `{"Op":%d}`, op))
	if err == nil {
		err = json.Unmarshal(r.Value, &out)
	}
	return cmp.Or(out.ID, out.Charge), err
}
