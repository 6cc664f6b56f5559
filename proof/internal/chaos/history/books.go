package history

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/lab"
)

// schema is the tables of the books. An effect adds a row to ledger, and a trigger notes each
// record that appears or goes. Both happen in the noted transaction, so the books hold exactly the
// committed facts. All times are the server's. An UPDATE of created_at completes a claim.
const schema = `
CREATE TABLE ledger (
	run  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	key  text NOT NULL,
	call bigint NOT NULL,
	xact xid8 NOT NULL DEFAULT pg_current_xact_id());
CREATE TABLE lives (
	n    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	op   text NOT NULL,
	key  text NOT NULL,
	app  text NOT NULL DEFAULT current_setting('application_name'),
	xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
	at   timestamptz NOT NULL DEFAULT clock_timestamp(),
	created_at timestamptz NOT NULL, expires_at timestamptz NOT NULL, forget_at timestamptz NOT NULL);
CREATE FUNCTION note_life() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r public.tool_dedup;
BEGIN
	IF TG_OP = 'DELETE' THEN r := OLD; ELSE r := NEW; END IF;
	INSERT INTO public.lives (op, key, created_at, expires_at, forget_at)
	VALUES (TG_OP, r.key, r.created_at, r.expires_at, r.forget_at);
	RETURN NULL;
END $$;
CREATE TRIGGER note_life AFTER INSERT OR UPDATE OF created_at OR DELETE ON tool_dedup FOR EACH ROW EXECUTE FUNCTION note_life();`

// effectSQL is the effect of every call. It takes the key, the number of the call and the seconds
// to sleep, and answers with the number of the run.
const effectSQL = `INSERT INTO public.ledger (key, call) SELECT $1::text, $2::bigint FROM pg_catalog.pg_sleep($3::float8) RETURNING run`

// committedSQL reads each effect with its record, and each record without an effect. The last row
// of a transaction is the state it left for a key. A record is deleted by another transaction.
const committedSQL = `
WITH left_over AS (
	SELECT DISTINCT ON (key, xact) * FROM lives ORDER BY key, xact, n DESC
)
SELECT COALESCE(l.key, r.key), COALESCE(l.run, 0), COALESCE(l.call, 0), r.at, r.created_at, r.expires_at, r.forget_at, gone.at, COALESCE(gone.app = $1, false)
  FROM ledger AS l
  FULL JOIN (SELECT * FROM left_over WHERE op <> 'DELETE') AS r ON r.key = l.key AND r.xact = l.xact
  LEFT JOIN lives AS gone ON gone.op = 'DELETE' AND gone.key = r.key AND gone.created_at = r.created_at AND gone.xact <> r.xact
 ORDER BY r.n, l.run`

// run is a committed effect with its record.
type run struct {
	Key  string
	Run  int64 // 0: a record without an effect
	Call int64
	// The fields below belong to the record. It was in the table at At, and no longer at Gone.
	At, Created, Expires, Forgotten, Gone *time.Time
	Reset                                 bool // Reset deleted it
}

// forever is later than all other times.
const forever = math.MaxInt64

// made is a call of one key and its answer.
type made struct {
	*draw
	key          string
	began, ended time.Time // for DoTx and batches, the times of the transaction or the batch
	told         *lab.Told // nil without an answer
	err          error     // for a batch, the errors of all its calls
}

// books hold the calls and answers of a round. Callers write to them concurrently.
type books struct {
	mu         sync.Mutex
	calls      map[int64]made         // by number
	resets     map[string][]time.Time // times at which a Reset of the key returned true, in order
	unanswered int
	err        error // the first error that is not a call's

	runs      []run
	histories map[string]*history // of each key
}

func newBooks() *books { return &books{calls: map[int64]made{}, resets: map[string][]time.Time{}} }

// note runs write under the lock of the books.
func (b *books) note(write func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	write()
}

// now is the server's time.
func (b *books) now(ctx context.Context, db *lab.Database) (at time.Time) {
	if err := db.Pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&at); err != nil {
		b.note(func() { b.err = cmp.Or(b.err, err) })
	}
	return at
}

// read reads the committed facts when only the lab's own connections are left.
func (b *books) read(ctx context.Context, db *lab.Database) error {
	ctx, cancel := context.WithTimeout(ctx, lab.Patience)
	defer cancel()
	for busy := true; busy; {
		err := db.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
			 WHERE datname = current_database() AND application_name <> $1 AND state <> 'idle' AND backend_type = 'client backend')
			 FROM pg_sleep(0.02)`, lab.OwnName).Scan(&busy)
		if err != nil {
			return fmt.Errorf("waiting for the end of all transactions: %w", err)
		}
	}
	rows, err := db.Pool.Query(ctx, committedSQL, lab.OwnName)
	if err == nil {
		b.runs, err = pgx.CollectRows(rows, pgx.RowToStructByPos[run])
	}
	if err == nil {
		_, err = db.Pool.Exec(ctx, `TRUNCATE ledger, lives`)
	}
	return err
}
