package effectwrites

import (
	"context"
	"net/http"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/connectdedup"
	"github.com/tooldedup/dedup/grpcdedup"
	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/riverdedup"
)

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tx, ok := httpdedup.Tx(r.Context())
	if !ok {
		_, _ = s.pool.Exec(r.Context(), insert) // not behind the door
		return
	}
	if _, err := s.pool.Exec(r.Context(), insert); err != nil { // want `Exec on a \*pgxpool.Pool in an effect`
		http.Error(w, "", http.StatusInternalServerError)
	}
	_, _ = tx.Exec(r.Context(), insert)
	s.audit(r.Context(), "")
}

func (s *service) callTool(ctx context.Context, in string) (int, error) {
	tx, _ := mcpdedup.Tx(ctx)
	if _, err := s.tx.Exec(ctx, insert); err != nil { // want `Exec on a pgx.Tx in an effect`
		return 0, err
	}
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer savepoint.Rollback(ctx)
	return 1, savepoint.Commit(ctx)
}

// A handler may get its transaction from another function.
func (s *service) callAnother(ctx context.Context, in string) error {
	tx := ofTheDoor(ctx)
	if _, err := s.pool.Exec(ctx, insert); err != nil { // want `Exec on a \*pgxpool.Pool in an effect`
		return err
	}
	_, err := tx.Exec(ctx, insert)
	return err
}

func ofTheDoor(ctx context.Context) pgx.Tx {
	tx, _ := mcpdedup.Tx(ctx)
	return tx
}

func (s *service) overGRPC(ctx context.Context, in *string) (*string, error) {
	tx, ok := grpcdedup.Tx(ctx)
	if !ok {
		_, err := s.pool.Exec(ctx, insert) // not behind the door
		return in, err
	}
	if _, err := s.pool.Exec(ctx, insert); err != nil { // want `Exec on a \*pgxpool.Pool in an effect`
		return nil, err
	}
	_, err := tx.Exec(ctx, insert)
	return in, err
}

func (s *service) overConnect(ctx context.Context, in *connect.Request[string]) (*connect.Response[string], error) {
	tx, ok := connectdedup.Tx(ctx)
	if !ok {
		_, err := s.pool.Exec(ctx, insert) // not behind the door
		return nil, err
	}
	if _, err := s.pool.Exec(ctx, insert); err != nil { // want `Exec on a \*pgxpool.Pool in an effect`
		return nil, err
	}
	_, err := tx.Exec(ctx, insert)
	return nil, err
}

func (s *service) work(ctx context.Context, job string) error {
	return riverdedup.Do(ctx, s.d, "acme", job, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := s.pool.Exec(ctx, insert); err != nil { // want `Exec on a \*pgxpool.Pool in an effect`
			return err
		}
		_, err := tx.Exec(ctx, insert)
		return err
	})
}

// A write after a call is repeated with every repeat of the call.
func (s *service) after(ctx context.Context, call dedup.Call) error {
	_, _ = s.pool.Exec(ctx, insert) // before
	_, err := dedup.Do(ctx, s.d, call, s.booking("seat"))
	if err != nil {
		_, _ = s.pool.Exec(ctx, "INSERT INTO failures VALUES ($1)", err.Error()) // want `an INSERT behind Do is made again with every repeat of the call; make it in the effect`
		return err
	}
	if _, err := s.pool.Exec(ctx, "UPDATE jobs SET done = true"); err != nil {
		return err
	}
	if _, err := s.pool.Exec(ctx, "INSERT INTO seen VALUES ($1) ON CONFLICT DO NOTHING", call.Key); err != nil {
		return err
	}
	_, err = s.db.ExecContext(ctx, "\n insert INTO mails VALUES ($1)", call.Key) // want `an INSERT behind Do`
	return err
}

func (s *service) afterAFirstTime(ctx context.Context, call dedup.Call) error {
	result, err := dedup.Do(ctx, s.d, call, s.booking("seat"))
	if err != nil || result.Replayed {
		return err
	}
	_, err = s.pool.Exec(ctx, insert)
	return err
}

func (s *service) besides(ctx context.Context, call dedup.Call, once bool) error {
	if once {
		_, err := dedup.Do(ctx, s.d, call, s.booking("seat"))
		return err
	}
	_, err := s.pool.Exec(ctx, insert)
	return err
}
