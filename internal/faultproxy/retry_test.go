package faultproxy_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/faultproxy"
)

// TestSafeToRetryIsWrong documents a bug of pgx 5.9.0 to 5.12.0: pgconn.SafeToRetry calls a COMMIT safe to repeat
// although it was executed and only its answer was lost. When this test fails with a newer pgx, the bug may be gone;
// until then nothing in this project may trust SafeToRetry about anything after the first byte of a COMMIT.
func TestSafeToRetryIsWrong(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			p := b.proxy(t)
			tx, err := b.connect(t, p, mode).Begin(b.ctx)
			require.NoError(t, err)
			p.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: faultproxy.AtCommit})

			err = endings["Commit"](b.ctx, tx, t.Name())

			require.EqualError(t, err, "conn closed")
			require.True(t, b.done(t, t.Name()), "the row is committed")
			//nolint:forbidigo // this test is the reason
			require.True(t, pgconn.SafeToRetry(err), "and yet pgx says that it is safe to try again")
		})
	}
}
