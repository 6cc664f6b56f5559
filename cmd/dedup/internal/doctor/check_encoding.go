package doctor

import "context"

// checkClientEncoding looks at how the session exchanges text. The encoding of
// the database is part of the schema's check.
func checkClientEncoding(ctx context.Context, s *session) ([]Finding, error) {
	conn, err := s.connected(ctx)
	if err != nil {
		return nil, err
	}
	read, err := readSettings(ctx, s, "client_encoding")
	if err != nil {
		return nil, err
	}
	stored := read.effective("client_encoding")
	// The server reports what is in force without being asked.
	if now := conn.PgConn().ParameterStatus("client_encoding"); now == "UTF8" {
		return []Finding{sound("client_encoding", now)}, nil
	}
	return []Finding{{
		ID: IDClientEncoding, Severity: SeverityError,
		What:     "client_encoding is not UTF8: every call is refused, since a key would be stored as other characters than it is made of and its next call be a stranger",
		Evidence: stored.evidence(),
		Fix:      stored.fix("'UTF8'"),
	}}, nil
}
