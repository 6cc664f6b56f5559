package contract_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

func TestSweeperRunsUntilItsContextEnds(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	f.fill(t, 3)
	sweeper, err := dedup.NewSweeper(f.d, &dedup.SweeperOptions{Interval: time.Millisecond})
	require.NoError(t, err)
	sweeping, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- sweeper.Run(sweeping) }()

	swept := func(n int) func([]any) bool {
		return func(all []any) bool { return len(ofType[dedup.SweptData](all)) >= n }
	}
	require.NoError(t, f.events.until(ctx, swept(3)))
	require.EqualValues(t, 3, events[dedup.SweptData](f.events)[0].Expired, "the first sweep is at once")

	// A sweep that fails is told and does not end it.
	f.exec(t, `ALTER TABLE tool_dedup RENAME TO gone`)
	require.NoError(t, f.events.until(ctx, func(all []any) bool {
		data := ofType[dedup.SweptData](all)
		return data[len(data)-1].Err != nil
	}))
	f.exec(t, `ALTER TABLE gone RENAME TO tool_dedup`)
	f.forgetAll(t)
	f.eventually(t, `SELECT count(*) = 0 FROM tool_dedup`)

	stop()
	require.ErrorIs(t, receive(t, ctx, ended), context.Canceled)
}

func TestNewSweeper(t *testing.T) {
	t.Parallel()

	_, f := plain.setup(t, nil)
	_, err := dedup.NewSweeper(nil, nil)
	require.ErrorIs(t, err, dedup.ErrOptions)
	_, err = dedup.NewSweeper(f.d, &dedup.SweeperOptions{Interval: time.Microsecond})
	require.ErrorIs(t, err, dedup.ErrOptions)
	_, err = dedup.NewSweeper(f.d, nil)
	require.NoError(t, err)
}
