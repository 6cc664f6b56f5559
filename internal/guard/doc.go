// Package guard keeps an effect within its transaction: it hands out a pgx.Tx that cannot
// be ended, marks the effect's context, and says afterwards in what state the effect left
// its transaction. It knows pgx and SQL's transaction control, and nothing of tool_dedup.
package guard
