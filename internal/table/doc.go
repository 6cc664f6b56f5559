// Package table knows tool_dedup: the SQL that locks, claims, looks up, writes and sweeps
// records, a record as it is stored, and whether the table can decide races. It knows
// nothing of effects, retries or waiting.
package table
