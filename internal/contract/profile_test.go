package contract_test

import (
	"cmp"
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgbouncer"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// profile is a way in which the contract must hold.
type profile struct {
	engine    engine
	order     orderKind
	isolation pgx.TxIsoLevel     // of the library's transactions and of callers'
	mode      pgx.QueryExecMode  // 0: pgx's default, cache_statement
	bouncer   *pgbouncer.Bouncer // nil: directly
	way       callWay
}

// orderKind is how attempts keep twins out. The library chooses it by the engine.
type orderKind string

const (
	lockFirst  orderKind = "lock first"
	claimFirst orderKind = "claim first"
)

// configure has the library take the pool's server for another engine if calls are to claim.
func (o orderKind) configure(config *pgxpool.Config) {
	if o == claimFirst {
		config.ConnConfig.RuntimeParams["tool_dedup.engine"] = "other"
	}
}

// engine is the server of a profile. The zero value is PostgreSQL.
type engine int

const (
	// onPlayedCitus is a PostgreSQL that pretends to be Citus, so that the library sends its
	// statements for Citus.
	onPlayedCitus engine = iota + 1
	// onCitus is a cluster of several nodes.
	onCitus
)

// playCitus makes a database pretend to be Citus. Each scope is its own shard.
const playCitus = `
SET allow_system_table_mods = on;
INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion) VALUES (99999, 'citus', 10, 11, false, '13');
CREATE FUNCTION pg_catalog.get_shard_id_for_distribution_column(regclass, text) RETURNS bigint LANGUAGE sql AS 'SELECT pg_catalog.hashtext($2)::bigint';
RESET allow_system_table_mods`

// callWay is the function that takes the calls.
type callWay int

const (
	viaDo        callWay = iota
	viaStatement         // DoStatement
	viaSQL               // Do, with effects that write through a *sql.Tx
)

// functions is true where effects are functions of Go.
func (w callWay) functions() bool { return w == viaDo || w == viaSQL }

func (p profile) String() string {
	name := strings.NewReplacer(" ", "", "_", "").Replace(string(cmp.Or(p.order, lockFirst)) + "-" + string(p.isolation))
	if p.mode != 0 {
		name += "-" + p.mode.String()
	}
	return name + [...]string{"", "-statement", "-databasesql"}[p.way] + [...]string{"", "-playedcitus", "-citus"}[p.engine]
}

// locks is true where attempts take the identity's lock and insert at the end.
func (p profile) locks() bool { return p.order != claimFirst && p.engine == 0 }

// fresh reports whether every statement sees all commits before it.
func (p profile) fresh() bool { return p.isolation == pgx.ReadCommitted }

func (p profile) configure(config *pgxpool.Config) {
	if p.bouncer != nil {
		through, err := p.bouncer.URL(config.ConnString())
		if err != nil {
			panic(err)
		}
		parsed, err := pgxpool.ParseConfig(through)
		if err != nil {
			panic(err)
		}
		config.ConnConfig = parsed.ConnConfig
	}
	if p.mode != 0 {
		config.ConnConfig.DefaultQueryExecMode = p.mode
	}
}

// fixture is a bundle of a profile, whose events are recorded.
type fixture struct {
	*bundle
	profile profile
	opts    dedup.Options
	conf    []func(*pgxpool.Config)
	events  *recorder
	// puppets are how the effects become statements; nil for Do.
	puppets *puppeteer
	// citus is the cluster that db is the coordinator of, nil elsewhere.
	citus *pgtest.Citus
}

func (p profile) setup(t *testing.T, opts *dedup.Options, conf ...func(*pgxpool.Config)) (context.Context, *fixture) {
	t.Helper()
	f := &fixture{profile: p, events: newRecorder(), conf: append(conf, p.configure)}
	if opts != nil {
		f.opts = *opts
	}
	if f.opts.Tracer == nil {
		f.opts.Tracer = f.events
	}
	if !p.way.functions() {
		f.conf = append(f.conf, func(config *pgxpool.Config) {
			config.ConnConfig.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) { f.puppets.notice(conn, n) }
		})
	}
	f.opts.Isolation = p.isolation
	db := f.newDB(t)
	if p.order == claimFirst && p.engine == 0 {
		db.PlayEngine(t, "other")
	}
	ctx, b := setupOn(t, db, &f.opts, f.conf...)
	f.bundle = b
	switch p.engine {
	case onCitus:
		b.exec(t, `SELECT create_distributed_table('effects', 'ref', colocate_with => 'none')`)
	case onPlayedCitus:
		b.exec(t, playCitus, pgx.QueryExecModeSimpleProtocol)
	}
	if !p.way.functions() {
		f.puppets = newPuppeteer(t, b)
	}
	return ctx, f
}

func (f *fixture) newDB(t *testing.T) *pgtest.DB {
	t.Helper()
	if f.profile.engine == onCitus {
		f.citus = pgtest.NewCitus(t)
		return f.citus.Coordinator()
	}
	return pgtest.New(t)
}

// peer returns a Deduper on another pool, like another process.
func (f *fixture) peer(t *testing.T, change ...func(*dedup.Options)) *dedup.Deduper {
	t.Helper()
	opts := f.opts
	for _, c := range change {
		c(&opts)
	}
	return newDeduper(t, f.db.Pool(t, f.conf...), &opts)
}

// untilWaitingInside waits until so many backends wait for a lock. For a claim they wait on the
// worker that has the row.
func (f *fixture) untilWaitingInside(t *testing.T, n int) {
	t.Helper()
	if f.profile.engine == onCitus && !f.profile.locks() {
		f.eventually(t, `SELECT count(*) >= $1::int FROM citus_lock_waits`, n)
		return
	}
	f.eventually(t, waitingInside, n)
}
