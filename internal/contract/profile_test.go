package contract_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgbouncer"
)

// variant is a way in which the contract must hold.
type variant struct {
	order     dedup.Order
	isolation pgx.TxIsoLevel
	mode      pgx.QueryExecMode  // 0: pgx's default, cache_statement
	bouncer   *pgbouncer.Bouncer // nil: directly
	way       callWay
}

// callWay is the function that takes the calls.
type callWay int

const (
	viaDo        callWay = iota
	viaStatement         // DoStatement
	viaSeparate          // DoStatement with Options.SeparateStatements
)

// whole tells that effect and record are one statement at first.
func (v variant) whole() bool { return v.way == viaStatement }

// tries is how often a call runs an effect that fails: what the error of a whole
// statement means is found out apart.
func (v variant) tries() int {
	if v.whole() {
		return 2
	}
	return 1
}

func (v variant) String() string {
	name := strings.NewReplacer(" ", "", "_", "").Replace(v.order.String() + "-" + string(v.isolation))
	if v.mode != 0 {
		name += "-" + v.mode.String()
	}
	return name + [...]string{"", "-statement", "-separate"}[v.way]
}

// locks tells that attempts take the identity's lock and insert at the end.
func (v variant) locks() bool { return v.order == dedup.LockFirst }

// fresh tells that every statement sees what is committed.
func (v variant) fresh() bool { return v.isolation == pgx.ReadCommitted }

func (v variant) configure(config *pgxpool.Config) {
	if v.bouncer != nil {
		through, err := v.bouncer.URL(config.ConnString())
		if err != nil {
			panic(err)
		}
		parsed, err := pgxpool.ParseConfig(through)
		if err != nil {
			panic(err)
		}
		config.ConnConfig = parsed.ConnConfig
	}
	if v.mode != 0 {
		config.ConnConfig.DefaultQueryExecMode = v.mode
	}
}

// fixture is a bundle of a variant, whose events are recorded.
type fixture struct {
	*bundle
	v      variant
	opts   dedup.Options
	conf   []func(*pgxpool.Config)
	events *recorder
	// puppets are how the effects become statements; nil for Do.
	puppets *puppeteer
}

func (v variant) setup(t *testing.T, opts *dedup.Options, conf ...func(*pgxpool.Config)) (context.Context, *fixture) {
	t.Helper()
	f := &fixture{v: v, events: newRecorder(), conf: append(conf, v.configure)}
	if opts != nil {
		f.opts = *opts
	}
	f.opts.Order, f.opts.Isolation = v.order, v.isolation
	f.opts.SeparateStatements = f.opts.SeparateStatements || v.way == viaSeparate
	if f.opts.Tracer == nil {
		f.opts.Tracer = f.events
	}
	if v.way != viaDo {
		f.conf = append(f.conf, func(config *pgxpool.Config) {
			config.ConnConfig.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) { f.puppets.notice(conn, n) }
		})
	}
	ctx, b := setup(t, &f.opts, f.conf...)
	f.bundle = b
	if v.way != viaDo {
		f.puppets = newPuppeteer(t, b)
	}
	return ctx, f
}

// peer returns a Deduper on a pool of its own, as another process would have.
func (f *fixture) peer(t *testing.T, change ...func(*dedup.Options)) *dedup.Deduper {
	t.Helper()
	opts := f.opts
	for _, c := range change {
		c(&opts)
	}
	return newDeduper(t, f.db.Pool(t, f.conf...), &opts)
}
