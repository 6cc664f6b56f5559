// Package records has the commands that read and free records: `dedup list`, `dedup show`,
// `dedup reset`, `dedup audit` and `dedup attention`.
//
// What they read of tool_dedup is found by its primary key or its index of what is due.
// Nothing is counted, and no result is read that was not asked for.
package records
