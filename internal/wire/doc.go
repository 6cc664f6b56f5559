// Package wire sends the library's own statements: several in one round trip, prepared
// where the connection prepares, in all of pgx's modes. It reads from a connection what
// is known of a COMMIT, and from an error what a fresh transaction may expect. It knows
// pgx and the protocol, and neither tool_dedup nor calls.
package wire
