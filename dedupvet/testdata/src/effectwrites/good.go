package effectwrites

import (
	"context"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"

	"store"
)

func (s *service) throughTheTx(ctx context.Context, call dedup.Call) {
	dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (id int, err error) {
		if _, err := tx.Exec(ctx, insert, 1); err != nil {
			return 0, err
		}
		err = tx.QueryRow(ctx, "SELECT 1").Scan(&id)
		return id, err
	})
}

func (s *service) throughSavepoints(ctx context.Context, call dedup.Call) {
	dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		savepoint, err := tx.Begin(ctx)
		if err != nil {
			return 0, err
		}
		if _, err := savepoint.Exec(ctx, insert); err != nil {
			return 0, err
		}
		return 1, pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
			_, err := inner.Exec(ctx, insert)
			return err
		})
	})
}

func (s *service) throughItsConnection(ctx context.Context, call dedup.Call) {
	dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		conn := tx.Conn()
		if _, err := conn.Exec(ctx, insert); err != nil {
			return 0, err
		}
		return 1, tx.Conn().PgConn().Exec(ctx, insert).Close()
	})
}

func (s *service) throughBoundQueries(ctx context.Context, call dedup.Call) {
	dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		if _, err := s.queries.WithTx(tx).CreateTicket(ctx, "printer"); err != nil {
			return 0, err
		}
		queries := s.queries.WithTx(tx)
		if _, err := queries.CreateTicket(ctx, "printer"); err != nil {
			return 0, err
		}
		if err := touch(ctx, tx); err != nil {
			return 0, err
		}
		return store.New(tx).CreateTicket(ctx, "printer")
	})
}

func (s *service) nested(ctx context.Context, call dedup.Call) {
	dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		inner, err := dedup.DoTx(ctx, s.d, tx, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
			_, err := tx.Exec(ctx, insert)
			return 1, err
		})
		return inner.Value, err
	})
}

// Calls that are not statements.
func (s *service) looks(ctx context.Context, call dedup.Call) {
	dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		log.Println(s.pool)
		dedup.New(s.pool, nil)
		return 1, s.pool.Ping(ctx)
	})
}

// Outside an effect any handle is allowed.
func (s *service) noEffect(ctx context.Context, call dedup.Call) error {
	if _, err := s.pool.Exec(ctx, insert); err != nil {
		return err
	}
	_, err := dedup.Do(ctx, s.d, call, openTicket)
	return err
}

func openTicket(ctx context.Context, tx pgx.Tx) (int, error) {
	r := repository{tx}
	return 1, r.insert(ctx)
}

// repository is made with the effect's transaction.
type repository struct{ tx pgx.Tx }

func (r repository) insert(ctx context.Context) error {
	_, err := r.tx.Exec(ctx, insert)
	return err
}

// A function with a transaction that is passed to another package is not an effect.
func (s *service) plain(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		_, err := s.pool.Exec(ctx, insert)
		return err
	})
}

// A function that effects and other code give something to run.
func each(f func() error) error { return f() }

func (s *service) given(ctx context.Context, call dedup.Call) error {
	_, err := dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		return 1, each(func() error {
			_, err := tx.Exec(ctx, insert)
			return err
		})
	})
	if err != nil {
		return err
	}
	return each(func() error {
		_, err := s.pool.Exec(ctx, insert)
		return err
	})
}
