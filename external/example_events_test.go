package external_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup"
)

const eventTable = `CREATE TABLE event (
	stream   text   NOT NULL,
	version  bigint NOT NULL,
	position bigint GENERATED ALWAYS AS IDENTITY,
	data     text   NOT NULL,
	CONSTRAINT event_pkey PRIMARY KEY (stream, version)
)`

// Appended is where an event stands: in its stream, and among all.
type Appended struct{ Version, Position int64 }

var errWrongVersion = errors.New("the stream has another version")

// appendEvent appends to a stream that is at the expected version. The id is the event's,
// made by whoever has decided on it. With a wrong version nothing is recorded, and the same
// id may be tried again.
func appendEvent(ctx context.Context, d *dedup.Deduper, id, stream string, expected int64, data string) (dedup.Result[Appended], error) {
	call := dedup.Call{
		Scope: "orders", Tool: "append_event", Key: id,
		Args: []string{stream, data}, // not the version: who tries again may have read a later one
	}
	return dedup.DoStatement[Appended](ctx, d, call, dedup.Statement{
		SQL: `INSERT INTO event (stream, version, data)
			SELECT $1, $2::bigint + 1, $3
			 WHERE $2 = (SELECT coalesce(max(version), 0) FROM event WHERE stream = $1)
			RETURNING version, position`,
		Args: []any{stream, expected, data},
		OnError: func(err error) error {
			pg, ok := errors.AsType[*pgconn.PgError](err)
			if errors.Is(err, pgx.ErrNoRows) || ok && pg.ConstraintName == "event_pkey" { // late, or in a race
				return errWrongVersion
			}
			return err
		},
	})
}

// Append-only events: the primary key decides between two writers, and a retry gets the
// position that its event got, although others have been appended since.
func Example_events() {
	ctx := context.Background()
	pool, drop := exampleDatabase(eventTable)
	defer drop()
	d, err := dedup.New(pool, nil)
	exampleMust(err)

	try := func(id string, expected int64, data string) {
		result, err := appendEvent(ctx, d, id, "order-117", expected, data)
		fmt.Println(id, result.Value, "replayed:", result.Replayed, err)
	}
	try("e1", 0, "placed")
	try("e2", 0, "paid")
	try("e2", 1, "paid")
	try("e1", 0, "placed")

	// Output:
	// e1 {1 1} replayed: false <nil>
	// e2 {0 0} replayed: false the stream has another version
	// e2 {2 2} replayed: false <nil>
	// e1 {1 1} replayed: true <nil>
}
