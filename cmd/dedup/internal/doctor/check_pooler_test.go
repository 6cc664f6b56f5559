package doctor

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestJudgeExecMode(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		mode    pgx.QueryExecMode
		tracked bool
		want    Severity
	}{
		{pgx.QueryExecModeCacheStatement, false, SeverityError},
		{pgx.QueryExecModeCacheStatement, true, SeverityOK},
		{pgx.QueryExecModeCacheDescribe, false, SeverityOK},
		{pgx.QueryExecModeCacheDescribe, true, SeverityOK},
		{pgx.QueryExecModeDescribeExec, false, SeverityError},
		{pgx.QueryExecModeDescribeExec, true, SeverityError},
		{pgx.QueryExecModeExec, false, SeverityOK},
		{pgx.QueryExecModeExec, true, SeverityOK},
		{pgx.QueryExecModeSimpleProtocol, false, SeverityOK},
		{pgx.QueryExecModeSimpleProtocol, true, SeverityOK},
	} {
		require.Equal(t, tc.want, judgeExecMode(tc.mode, tc.tracked).Severity, "%s %v", tc.mode, tc.tracked)
	}
}

// Two clients that have their statements for themselves, as behind a pooler that
// tracks them: here because each has a server connection.
func TestTracksPrepared(t *testing.T) {
	t.Parallel()

	pool := pgtest.NewEmpty(t).Pool(t)
	one, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer one.Release()
	two, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer two.Release()
	tracked, err := tracksPrepared(t.Context(), one.Conn(), two.Conn())
	require.NoError(t, err)
	require.True(t, tracked)
	var left int
	require.NoError(t, one.QueryRow(t.Context(), "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'dedup_doctor%'", pgx.QueryExecModeExec).Scan(&left))
	require.Zero(t, left)

	require.NoError(t, two.Conn().Close(t.Context()))
	_, err = tracksPrepared(t.Context(), one.Conn(), two.Conn())
	require.ErrorContains(t, err, "preparing a statement")
}
