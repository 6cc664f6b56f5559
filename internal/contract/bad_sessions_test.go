package contract_test

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// badSessions do to the session or the schema what an effect should not.
func badSessions() (rows []badRow) {
	add := func(row badRow, s step) {
		row.run = func(w *badWorld) error { return w.do(s) }
		rows = append(rows, row)
	}
	sql := func(text string) step {
		return func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, text); return err }
	}
	stored := func(name, text string) {
		add(badRow{name: name, want: fine, records: 1, effects: 1, replays: true}, sql(text))
	}
	stored("TempTableShadows", "CREATE TEMP TABLE tool_dedup (LIKE public.tool_dedup INCLUDING ALL)")
	stored("TempViewShadows", "CREATE TEMP VIEW tool_dedup AS SELECT 1 AS scope")
	stored("SearchPath", "SET search_path = pg_temp, pg_catalog")
	stored("SearchPathElsewhere", "CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.tool_dedup (LIKE public.tool_dedup INCLUDING ALL); SET LOCAL search_path = elsewhere")
	stored("FunctionsShadowed", "CREATE SCHEMA elsewhere; CREATE FUNCTION elsewhere.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$SELECT 'epoch'::timestamptz$$; SET LOCAL search_path = elsewhere, pg_catalog, public")
	stored("ReplicationRole", "SET LOCAL session_replication_role = replica")
	stored("TimeZoneAndDateStyle", "SET LOCAL TimeZone = 'Asia/Kathmandu'; SET LOCAL DateStyle = 'German'; SET LOCAL IntervalStyle = 'sql_standard'")
	stored("ResetAll", "RESET ALL")
	stored("SavepointLeftOpen", "SAVEPOINT a; SAVEPOINT a; ROLLBACK TO a")
	stored("OwnAdvisoryUnlock", "SELECT pg_advisory_unlock_all()")

	add(badRow{name: "SetRole", want: state("42501")}, sql("SET ROLE pg_monitor"))
	add(badRow{name: "SetLocalRole", want: state("42501")}, sql("SET LOCAL ROLE pg_monitor"))
	add(badRow{name: "TableRenamed", want: state("42P01")}, sql("ALTER TABLE tool_dedup RENAME TO gone"))
	add(badRow{name: "TableDropped", want: state("42P01")}, sql("DROP TABLE tool_dedup"))
	add(badRow{name: "DeferredConstraint", want: state("23505")}, sql("CREATE TABLE u (a int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO u VALUES (1), (1)"))
	add(badRow{name: "WritesOwnRecord", want: is(dedup.ErrConflict)}, sql(`INSERT INTO tool_dedup VALUES ('acme', 'create_ticket', 'k', decode(repeat('00', 32), 'hex'), NULL, 'done', '1', now(), now(), now())`))
	add(badRow{name: "RecordRedirected", want: state("0A000")}, sql("CREATE RULE r AS ON INSERT TO tool_dedup DO INSTEAD NOTHING"))
	add(badRow{name: "RecordSwallowed", want: is(dedup.ErrBroken), effects: 1, next: dedup.ErrArbiter}, sql(`CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$;
		CREATE TRIGGER no BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION no()`))
	add(badRow{name: "RecordRefused", want: state("P0001")}, sql(`CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'no'; END$$;
		CREATE TRIGGER no BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION no()`))

	twice := dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 2}}
	gaveUp := is(dedup.ErrAttemptsExhausted)
	add(badRow{name: "ReadOnly", opts: twice, want: gaveUp}, sql("SET TRANSACTION READ ONLY"))
	add(badRow{name: "BackendTerminated", opts: twice, want: gaveUp}, sql("SELECT pg_terminate_backend(pg_backend_pid())"))
	add(badRow{name: "BackendTerminatedSwallowed", opts: twice, want: gaveUp}, func(ctx context.Context, tx pgx.Tx) error {
		_, _ = tx.Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
		return nil
	})
	add(badRow{name: "ConnClosed", opts: twice, want: gaveUp}, func(ctx context.Context, tx pgx.Tx) error { return tx.Conn().Close(ctx) })
	add(badRow{name: "IdleTooLong", opts: dedup.Options{IdleTimeout: 250 * time.Millisecond}, want: state("25P03")}, func(ctx context.Context, tx pgx.Tx) error {
		return tx.Conn().PgConn().WaitForNotification(ctx) // the server speaks first, to end it
	})
	return rows
}
