package deduptest_test

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// exampleTB stands for the *testing.T that an example lacks.
type exampleTB struct{}

func (exampleTB) Helper()                  {}
func (exampleTB) Context() context.Context { return context.Background() }
func (exampleTB) Logf(string, ...any)      {}

func (exampleTB) Errorf(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }
func (exampleTB) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// exampleDatabase makes a database with tool_dedup and the tables that setup creates. done drops
// it.
func exampleDatabase(setup string) (tb exampleTB, url string, done func()) {
	ctx := context.Background()
	db, err := pgtest.Create(ctx)
	exampleMust(err)
	conn, err := pgx.Connect(ctx, db.URL)
	exampleMust(err)
	_, err = conn.Exec(ctx, setup)
	exampleMust(err)
	exampleMust(conn.Close(ctx))
	return tb, db.URL, func() { exampleMust(db.Drop(ctx)) }
}

func exampleMust(err error) {
	if err != nil {
		panic(err)
	}
}
