package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/proof/internal/replay/payment"
	"github.com/tooldedup/dedup/proof/internal/world"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
	"github.com/tooldedup/dedup/tool"
)

// idleTimeout frees what a vanished worker holds. The driver keeps a unit back
// for milliseconds; where a machine is so slow that it takes longer, the
// delivery fails and is sent again.
const idleTimeout = 2 * time.Second

// executor is the tools of both domains, and how they are run.
type executor struct {
	mode    Mode
	homes   map[string]*home   // by schema
	domains map[string]*domain // by name
	waits   waits
	metrics http.Handler // nil where none are wanted

	// These are there where some tools pay outside of the database.
	outside *external.Tools
	paying  map[string]*payment.Handle // by name
}

// domain is the tools of a domain, and where they run.
type domain struct {
	*home
	tools    map[string]kit.Tool // by name
	registry *tool.Registry      // nil in mode Naive
}

// home is a schema, of one domain or of both.
type home struct {
	pool    *pgxpool.Pool
	deduper *dedup.Deduper // nil in mode Naive
}

func newExecutor(ctx context.Context, hello Hello) (*executor, error) {
	if hello.Mode != Naive && hello.Mode != Dedup {
		return nil, fmt.Errorf("unknown mode %q", hello.Mode)
	}
	e := &executor{mode: hello.Mode, homes: map[string]*home{}, domains: map[string]*domain{}}
	if err := e.open(ctx, hello); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *executor) open(ctx context.Context, hello Hello) (err error) {
	opts := dedup.Options{IdleTimeout: idleTimeout, Tracer: &e.waits, Retry: dedup.RetryPolicy{MaxAttempts: hello.Attempts}}
	if hello.Metrics {
		var tracer dedup.Tracer
		if tracer, e.metrics, err = newMetrics(); err != nil {
			return err
		}
		opts.Tracer = dedup.MultiTracer(tracer, &e.waits)
	}
	for name, tools := range world.Tools() {
		if hello.Schemas {
			opts.Schema = name
		}
		d := &domain{tools: map[string]kit.Tool{}}
		if d.home, err = e.home(ctx, hello, opts); err != nil {
			return err
		}
		for _, t := range tools {
			d.tools[t.Name] = t
		}
		if e.mode == Dedup {
			if d.registry, err = world.Registry(d.deduper, name); err != nil {
				return err
			}
		}
		e.domains[name] = d
	}
	return e.pay(hello)
}

// home is that of the schema of the options, or of the role's own where they name none. It
// connects where that has not been done.
func (e *executor) home(ctx context.Context, hello Hello, opts dedup.Options) (*home, error) {
	if h := e.homes[opts.Schema]; h != nil {
		return h, nil
	}
	pool, err := connect(ctx, hello, opts.Schema)
	if err != nil {
		return nil, err
	}
	h := &home{pool: pool}
	e.homes[opts.Schema] = h
	if e.mode == Dedup {
		h.deduper, err = dedup.New(pool, &opts)
	}
	return h, err
}

// pay has the tools that pay run outside of the database. All domains have one home then.
func (e *executor) pay(hello Hello) (err error) {
	if hello.Pays == payment.Off {
		return nil
	}
	e.paying = map[string]*payment.Handle{}
	for _, d := range e.domains {
		if e.outside == nil {
			if e.outside, err = external.New(d.deduper, &external.Options{Lease: payment.Lease}); err != nil {
				return err
			}
		}
		for name, t := range d.tools {
			if !hello.Pays.Pays(name) {
				continue
			}
			if e.paying[name], err = hello.Pays.Add(e.outside, d.pool, hello.Provider, hello.Name, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// close waits for what is still being paid, and closes the pools.
func (e *executor) close() {
	if e.outside != nil {
		ctx, cancel := context.WithTimeout(context.Background(), payment.Lease)
		defer cancel()
		_ = e.outside.Close(ctx) // another worker goes on with it
	}
	for _, h := range e.homes {
		h.pool.Close()
	}
}

// plain runs a tool in a transaction of its own, once. A refusal rolls it back.
func (d *domain) plain(ctx context.Context, t kit.Tool, args json.RawMessage) (result json.RawMessage, err error) {
	options := pgx.TxOptions{}
	if t.Class == tool.ReadOnly {
		options.AccessMode = pgx.ReadOnly
	}
	err = pgx.BeginTxFunc(ctx, d.pool, options, func(tx pgx.Tx) (err error) {
		result, err = t.Run(ctx, tx, args)
		return err
	})
	return result, err
}
