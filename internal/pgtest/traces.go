package pgtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Traces returns the places where the library's tables still have one of the texts, after a VACUUM:
// the columns, the planner's statistics, and the pages of tables, TOAST tables and indexes. It does
// not count the free room of a page, which Postgres overwrites in its own time. It needs a
// superuser.
func (db *DB) Traces(tb testing.TB, texts ...string) (places []string) {
	tb.Helper()
	ctx := tb.Context()
	conn, err := pgx.Connect(ctx, db.URL)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	each := func(sql string, see func(name, content string)) {
		tb.Helper()
		rows, err := conn.Query(ctx, sql, pgx.QueryExecModeExec)
		if err != nil {
			tb.Fatal(err)
		}
		var name, content string
		if _, err := pgx.ForEachRow(rows, []any{&name, &content}, func() error { see(name, content); return nil }); err != nil {
			tb.Fatal(err)
		}
	}
	note := func(place string, content []byte) {
		for _, text := range texts {
			if bytes.Contains(content, []byte(text)) {
				places = append(places, place)
			}
		}
	}
	var tables, relations []string
	const ours = `relkind = 'r' AND relname ~ '^tool_(dedup|effect)'`
	each(`SELECT oid::regclass::text, '' FROM pg_class WHERE `+ours, func(name, _ string) { tables = append(tables, name) })
	for _, table := range tables {
		if _, err := conn.Exec(ctx, "VACUUM (ANALYZE) "+table); err != nil {
			tb.Fatal(err)
		}
		each(fmt.Sprintf("SELECT '%[1]s', r::text FROM %[1]s AS r", table), func(name, row string) { note("a row of "+name, []byte(row)) })
	}
	each(`SELECT tablename || '.' || attname, s::text FROM pg_stats AS s WHERE tablename ~ '^tool_(dedup|effect)'`, func(name, row string) { note("the statistics of "+name, []byte(row)) })
	if _, err := conn.Exec(ctx, "CHECKPOINT"); err != nil {
		tb.Fatal(err)
	}
	each(`WITH heaps AS (
SELECT oid FROM pg_class WHERE `+ours+` UNION ALL SELECT reltoastrelid FROM pg_class WHERE reltoastrelid <> 0 AND `+ours+`)
SELECT oid::regclass::text, '' FROM heaps UNION ALL SELECT indexrelid::regclass::text, '' FROM pg_index WHERE indrelid IN (SELECT oid FROM heaps)`,
		func(name, _ string) { relations = append(relations, name) })
	for _, relation := range relations {
		var file []byte
		if err := conn.QueryRow(ctx, "SELECT pg_read_binary_file(pg_relation_filepath($1::text::regclass))", relation).Scan(&file); err != nil {
			tb.Fatal(err)
		}
		blankFreeRoom(file)
		note("a page of "+relation, file)
	}
	return places
}

// blankFreeRoom overwrites the room between the line pointers and the rows of each page.
func blankFreeRoom(file []byte) {
	const pageSize, lower, upper = 8192, 12, 14 // of PageHeaderData
	for ; len(file) >= pageSize; file = file[pageSize:] {
		from, to := binary.LittleEndian.Uint16(file[lower:]), binary.LittleEndian.Uint16(file[upper:])
		if from < to && int(to) <= pageSize {
			clear(file[from:to])
		}
	}
}
