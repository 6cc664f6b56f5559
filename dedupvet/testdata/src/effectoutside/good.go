package effectoutside

import (
	"context"
	"net/http"
	"os/exec"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tooldedup/dedup"
)

// Before and after the effect.
func (s *shop) around(ctx context.Context, call dedup.Call) error {
	if _, err := http.Get("https://example.com/price"); err != nil {
		return err
	}
	_, err := dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := tx.Exec(ctx, "INSERT INTO outbox")
		return 1, err
	})
	if err != nil {
		return err
	}
	time.Sleep(time.Second)
	return mail("booked")
}

// mail is called by no effect.
func mail(text string) error { return exec.Command("mail", text).Run() }

// A request that is made and not sent.
func (s *shop) prepares(ctx context.Context, call dedup.Call) {
	dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (string, error) {
		req, err := http.NewRequestWithContext(ctx, "POST", "https://example.com", nil)
		if err != nil {
			return "", err
		}
		cmd := exec.Command("mail")
		return req.URL.String() + cmd.Path, nil
	})
}

// Times without a pause.
func (s *shop) tellsTime(ctx context.Context, call dedup.Call) {
	dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (time.Time, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := tx.Exec(ctx, "INSERT", time.Now().Add(time.Hour))
		return time.Now(), err
	})
}

type client struct{}

func (client) Do(req *http.Request) error   { return nil }
func (client) Get(url string) string        { return url }
func (client) List(opts ...string) []string { return opts }
func (client) Sleep(d time.Duration)        {}

// Methods of the same names.
func (s *shop) namesakes(ctx context.Context, call dedup.Call, c client) {
	dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (string, error) {
		c.Sleep(time.Second)
		c.List("a", "b")
		return c.Get("x"), c.Do(nil)
	})
}

// The application's own transaction is not checked.
func (s *shop) noEffect(ctx context.Context, pool *pgxpool.Pool) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := http.Get("https://example.com")
		return err
	})
}

// A statement that waits has no Go code.
func (s *shop) statement(ctx context.Context, call dedup.Call) error {
	_, err := http.Get("https://example.com")
	if err != nil {
		return err
	}
	_, err = dedup.DoStatement[int](ctx, s.d, call, dedup.SQL("INSERT"))
	return err
}

// A handler receives a request; it sends none.
func (s *shop) handler(w http.ResponseWriter, r *http.Request) {
	_, err := dedup.Do(r.Context(), s.d, dedup.Call{Key: r.Header.Get("Idempotency-Key")}, func(ctx context.Context, tx pgx.Tx) (string, error) {
		w.Header().Set("Content-Type", "text/plain")
		return r.URL.Path, nil
	})
	if err != nil {
		http.Error(w, "try again", http.StatusServiceUnavailable)
	}
}
