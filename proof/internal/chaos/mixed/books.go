package mixed

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/lab"
)

// schema is what the books are made of. An effect leaves a row in ledger, and a
// trigger notes what happens to a record in lives: both in the transaction in which
// it happens, so that the books hold exactly what was committed. All times are the
// server's. A key's events have the order of their numbers: whoever writes a record
// of it has waited for whoever wrote before.
const schema = `
CREATE TABLE ledger (
	run  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	key  text NOT NULL,
	call bigint NOT NULL,
	xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
	at   timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE TABLE lives (
	n    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	op   text NOT NULL,
	key  text NOT NULL,
	app  text NOT NULL,
	xact xid8 NOT NULL,
	at   timestamptz NOT NULL,
	created_at timestamptz NOT NULL, expires_at timestamptz NOT NULL, forget_at timestamptz NOT NULL);
CREATE FUNCTION note_life() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r public.tool_dedup;
BEGIN
	IF TG_OP = 'DELETE' THEN r := OLD; ELSE r := NEW; END IF;
	INSERT INTO public.lives (op, key, app, xact, at, created_at, expires_at, forget_at)
	VALUES (TG_OP, r.key, current_setting('application_name'), pg_current_xact_id(), clock_timestamp(), r.created_at, r.expires_at, r.forget_at);
	RETURN NULL;
END $$;
CREATE TRIGGER note_life AFTER INSERT OR UPDATE OR DELETE ON tool_dedup FOR EACH ROW EXECUTE FUNCTION note_life();`

// effectSQL is every effect: it takes the key, the number of the call and how many
// seconds it takes, and its answer is the number of the run.
const effectSQL = `INSERT INTO public.ledger (key, call) SELECT $1::text, $2::bigint FROM pg_catalog.pg_sleep($3::float8) RETURNING run`

// entry is a committed effect.
type entry struct {
	Run  int64
	Key  string
	Call int64
	Xact int64
}

// event is something that was committed about a record.
type event struct {
	Op, Key, App                string
	Xact                        int64
	At                          time.Time
	Created, Expires, Forgotten time.Time
}

// told is an answer that a caller got.
type told struct {
	key      string
	call     int64 // its number, which is also in the ledger
	run      int64
	created  time.Time // Result.CreatedAt
	replayed bool
	began    time.Time // when the call began or, of DoTx, its transaction
	way      string
}

// books are what is known of a round. Callers write to them at once.
type books struct {
	mu      sync.Mutex
	answers []told
	resets  map[string][]time.Time // when a Reset of the key had returned true
	made    map[int64]string       // the way of each call

	ledger []entry
	events []event
}

func newBooks() *books { return &books{resets: map[string][]time.Time{}, made: map[int64]string{}} }

func (b *books) begun(d *draw) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, call := range d.calls {
		b.made[call] = d.name
	}
}

func (b *books) answered(t told) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers = append(b.answers, t)
}

func (b *books) reset(key string, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.resets[key] = append(b.resets[key], at)
}

// read reads what was committed. It takes one snapshot: a statement that a broken
// connection has left behind may still arrive.
func (b *books) read(ctx context.Context, db *lab.Database) error {
	return pgx.BeginTxFunc(ctx, db.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT run, key, call, xact::text::bigint AS xact FROM ledger ORDER BY run`)
		if err == nil {
			b.ledger, err = pgx.CollectRows(rows, pgx.RowToStructByPos[entry])
		}
		if err != nil {
			return fmt.Errorf("reading the ledger: %w", err)
		}
		rows, err = tx.Query(ctx, `SELECT op, key, app, xact::text::bigint, at, created_at, expires_at, forget_at FROM lives ORDER BY n`)
		if err == nil {
			b.events, err = pgx.CollectRows(rows, pgx.RowToStructByPos[event])
		}
		if err != nil {
			return fmt.Errorf("reading the lives of records: %w", err)
		}
		return nil
	})
}

// now is the server's time.
func now(ctx context.Context, db *lab.Database) (at time.Time, err error) {
	err = db.Pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&at)
	return at, err
}

// quiet waits until no connection but the lab's own is at work.
func quiet(ctx context.Context, db *lab.Database) error {
	ctx, cancel := context.WithTimeout(ctx, lab.Patience)
	defer cancel()
	for {
		var busy bool
		err := db.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
			 WHERE datname = current_database() AND application_name <> $1 AND state <> 'idle' AND backend_type = 'client backend')
			 FROM pg_sleep(0.02)`, lab.OwnName).Scan(&busy)
		if err != nil {
			return fmt.Errorf("waiting for the end of all transactions: %w", err)
		}
		if !busy {
			return nil
		}
	}
}
