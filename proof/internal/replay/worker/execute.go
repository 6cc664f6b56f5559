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
	mode  Mode
	pool  *pgxpool.Pool
	tools map[string]map[string]kit.Tool // by domain and name

	// These are there in mode Dedup.
	deduper    *dedup.Deduper
	registries map[string]*tool.Registry // by domain
	waits      waits
	metrics    http.Handler // nil where none are wanted

	// These are there where some tools pay outside of the database.
	outside *external.Tools
	paying  map[string]*payment.Handle // by name
}

func newExecutor(pool *pgxpool.Pool, hello Hello) (e *executor, err error) {
	e = &executor{mode: hello.Mode, pool: pool, tools: map[string]map[string]kit.Tool{}}
	for domain, tools := range world.Tools() {
		e.tools[domain] = map[string]kit.Tool{}
		for _, t := range tools {
			e.tools[domain][t.Name] = t
		}
	}
	switch hello.Mode {
	case Naive:
		return e, nil
	case Dedup:
		opts := dedup.Options{IdleTimeout: idleTimeout, Tracer: &e.waits, Retry: dedup.RetryPolicy{MaxAttempts: hello.Attempts}}
		if hello.Metrics {
			var tracer dedup.Tracer
			if tracer, e.metrics, err = newMetrics(); err != nil {
				return nil, err
			}
			opts.Tracer = dedup.MultiTracer(tracer, &e.waits)
		}
		if e.deduper, err = dedup.New(pool, &opts); err != nil {
			return nil, err
		}
		if e.registries, err = world.Registries(e.deduper); err != nil {
			return nil, err
		}
		return e, e.pay(hello)
	default:
		return nil, fmt.Errorf("unknown mode %q", hello.Mode)
	}
}

// pay has the tools that pay run outside of the database.
func (e *executor) pay(hello Hello) (err error) {
	if hello.Pays == payment.Off {
		return nil
	}
	if e.outside, err = external.New(e.deduper, &external.Options{Lease: payment.Lease}); err != nil {
		return err
	}
	e.paying = map[string]*payment.Handle{}
	for _, tools := range e.tools {
		for name, t := range tools {
			if !hello.Pays.Pays(name) {
				continue
			}
			if e.paying[name], err = hello.Pays.Add(e.outside, e.pool, hello.Provider, hello.Name, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// close waits for what is still being paid.
func (e *executor) close() {
	if e.outside != nil {
		ctx, cancel := context.WithTimeout(context.Background(), payment.Lease)
		defer cancel()
		_ = e.outside.Close(ctx) // another worker goes on with it
	}
}

// plain runs a tool in a transaction of its own, once. A refusal rolls it back.
func (e *executor) plain(ctx context.Context, t kit.Tool, args json.RawMessage) (result json.RawMessage, err error) {
	options := pgx.TxOptions{}
	if t.Class == tool.ReadOnly {
		options.AccessMode = pgx.ReadOnly
	}
	err = pgx.BeginTxFunc(ctx, e.pool, options, func(tx pgx.Tx) (err error) {
		result, err = t.Run(ctx, tx, args)
		return err
	})
	return result, err
}
