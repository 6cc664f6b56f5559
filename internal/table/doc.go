// Package table knows tool_dedup: the SQL that locks, claims, looks up, writes and sweeps
// records, and a record as it is stored. It knows nothing of effects, retries or waiting.
package table
