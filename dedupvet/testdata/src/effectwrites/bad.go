package effectwrites

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"

	"store"
)

const insert = "INSERT INTO tickets VALUES ($1)"

type service struct {
	d       *dedup.Deduper
	pool    *pgxpool.Pool
	conn    *pgx.Conn
	db      *sql.DB
	sqlTx   *sql.Tx
	tx      pgx.Tx
	any     store.DBTX
	queries *store.Queries
}

func (s *service) throughThePool(ctx context.Context, call dedup.Call) {
	dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (id int, err error) {
		if _, err := s.pool.Exec(ctx, insert, 1); err != nil { // want `Exec on a \*pgxpool.Pool in an effect: this is not part of its transaction`
			return 0, err
		}
		s.pool.QueryRow(ctx, "SELECT 1")                 // want `QueryRow on a \*pgxpool.Pool`
		s.pool.SendBatch(ctx, &pgx.Batch{})              // want `SendBatch on a \*pgxpool.Pool`
		s.pool.CopyFrom(ctx, pgx.Identifier{}, nil, nil) // want `CopyFrom on a \*pgxpool.Pool`
		rows, err := s.pool.Query(ctx, "SELECT 1")       // want `Query on a \*pgxpool.Pool`
		_ = rows
		other, err := s.pool.Begin(ctx) // want `Begin on a \*pgxpool.Pool`
		if err != nil {
			return 0, err
		}
		_, err = other.Exec(ctx, insert, 1) // begun here, and that is reported
		return 1, err
	})
}

func (s *service) throughConnections(ctx context.Context, call dedup.Call) {
	dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, _ = s.conn.Exec(ctx, insert) // want `Exec on a \*pgx.Conn`
		pooled, err := s.pool.Acquire(ctx)
		if err != nil {
			return 0, err
		}
		_, _ = pooled.Exec(ctx, insert)        // want `Exec on a \*pgxpool.Conn`
		_, _ = pooled.Conn().Exec(ctx, insert) // want `Exec on a \*pgx.Conn`
		own, err := pgx.Connect(ctx, "")
		if err != nil {
			return 0, err
		}
		_, err = own.Exec(ctx, insert) // want `Exec on a \*pgx.Conn`
		return 1, err
	})
}

func (s *service) throughDatabaseSQL(ctx context.Context, call dedup.Call) {
	dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := s.db.ExecContext(ctx, insert) // want `ExecContext on a \*sql.DB`
		if err != nil {
			return 0, err
		}
		_, err = s.sqlTx.Exec(insert) // want `Exec on a \*sql.Tx`
		return 1, err
	})
}

func (s *service) throughAnotherTx(ctx context.Context, outer pgx.Tx, call dedup.Call) {
	dedup.DoTx(ctx, s.d, outer, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := outer.Exec(ctx, insert) // want `Exec on a pgx.Tx in an effect`
		if err != nil {
			return 0, err
		}
		alias := s.tx
		if _, err := alias.Exec(ctx, insert); err != nil { // want `Exec on a pgx.Tx`
			return 0, err
		}
		if _, err := store.Shared.Exec(ctx, insert); err != nil { // want `Exec on a pgx.Tx`
			return 0, err
		}
		_, err = s.any.Exec(ctx, insert) // want `Exec on a store.DBTX`
		return 1, err
	})
}

func (s *service) throughUnboundQueries(ctx context.Context, call dedup.Call) {
	dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		return s.queries.CreateTicket(ctx, "printer") // want `CreateTicket of queries that are not bound to the transaction in an effect`
	})
}

func (s *service) throughOthers(ctx context.Context, call dedup.Call) {
	dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { // want `a \*pgxpool.Pool is handed to BeginFunc in an effect`
			_, err := tx.Exec(ctx, insert)
			return err
		})
		if err != nil {
			return 0, err
		}
		if err := touch(ctx, s.pool); err != nil { // want `a \*pgxpool.Pool is handed to touch`
			return 0, err
		}
		if err := through(ctx, s.pool); err != nil { // reported there
			return 0, err
		}
		if err := touch(ctx, s.tx); err != nil { // want `a pgx.Tx is handed to touch in an effect`
			return 0, err
		}
		return store.New(s.pool).CreateTicket(ctx, "printer") // want `a \*pgxpool.Pool is handed to New`
	})
}

func touch(ctx context.Context, db store.DBTX) error {
	_, err := db.Exec(ctx, insert)
	return err
}

func through(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, insert) // want `Exec on a \*pgxpool.Pool in through, which an effect calls`
	return err
}

// Run by type: as the Run of a tool, as a method, and as an Archive hook.
func (s *service) tools(ctx context.Context) {
	_ = tool.Tool[string, int]{Name: "open_ticket", Class: tool.Write, Run: s.open}
	var named tool.Tool[string, int]
	named.Run = func(ctx context.Context, tx pgx.Tx, in string) (int, error) {
		_, err := s.pool.Exec(ctx, insert, in) // want `Exec on a \*pgxpool.Pool in an effect`
		return 1, err
	}
	s.d.Sweep(ctx, &dedup.SweepOptions{Archive: func(ctx context.Context, tx pgx.Tx, batch []dedup.SweptRecord) error {
		_, err := s.pool.Exec(ctx, insert, batch) // want `Exec on a \*pgxpool.Pool in an effect`
		return err
	}})
}

func (s *service) open(ctx context.Context, tx pgx.Tx, in string) (int, error) {
	s.audit(ctx, in)
	_, err := s.tx.Exec(ctx, insert, in) // want `Exec on a pgx.Tx in an effect`
	return 1, err
}

// audit is called by an effect.
func (s *service) audit(ctx context.Context, in string) {
	_, _ = s.pool.Exec(ctx, insert, in) // want `Exec on a \*pgxpool.Pool in audit, which an effect calls`
}

// An effect that a function of the application passes on, and one that a function returns.
func (s *service) wrapped(ctx context.Context, call dedup.Call) {
	s.once(ctx, call, func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, err := s.pool.Exec(ctx, insert) // want `Exec on a \*pgxpool.Pool in an effect`
		return "", err
	})
	dedup.Do(ctx, s.d, call, s.booking("seat"))
}

func (s *service) once(ctx context.Context, call dedup.Call, run func(context.Context, pgx.Tx) (string, error)) {
	dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (string, error) { return run(ctx, tx) })
}

func (s *service) booking(seat string) func(context.Context, pgx.Tx) (int, error) {
	return func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := s.pool.Exec(ctx, insert, seat) // want `Exec on a \*pgxpool.Pool in an effect`
		return 1, err
	}
}

// An embedded pool.
type embedding struct{ *pgxpool.Pool }

func (s *service) throughEmbedded(ctx context.Context, call dedup.Call, e embedding) {
	dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := e.Exec(ctx, insert) // want `Exec on a \*pgxpool.Pool in an effect`
		return 1, err
	})
}

// A connection that a literal captures.
func (s *service) throughCaptured(ctx context.Context, call dedup.Call) {
	dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		own, err := pgx.Connect(ctx, "")
		if err != nil {
			return 0, err
		}
		write := func() error {
			_, err := own.Exec(ctx, insert) // want `Exec on a \*pgx.Conn`
			return err
		}
		return 1, write()
	})
}
