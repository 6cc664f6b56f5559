package lab

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/process"
)

// TestSeat has a worker that repeats its task, which is read as its address.
func TestSeat(t *testing.T) {
	t.Parallel()
	seat := &Seat{Command: process.Command{Program: "cat"}, Task: "the address"}
	addr, err := seat.Addr(t.Context())
	require.NoError(t, err)
	require.Equal(t, "the address", addr)
	first, err := seat.Server()
	require.NoError(t, err)

	require.True(t, seat.Kill())
	second, err := seat.Server()
	require.NoError(t, err)
	require.NotSame(t, first, second)

	seat.Close(time.Minute)
	require.True(t, second.Ended())
	_, err = seat.Addr(t.Context())
	require.ErrorAs(t, err, &Hopeless{}, "a request that is still under way starts no process")
	require.Equal(t, 2, seat.Started())
}

// TestSeatOfAProcessThatEnds has a worker that ends by itself, which is a defect. No later process
// hides it.
func TestSeatOfAProcessThatEnds(t *testing.T) {
	t.Parallel()
	seat := &Seat{Command: process.Command{Program: "head", Args: []string{"-n", "1"}}, Task: "the address"}
	server, err := seat.Server()
	require.NoError(t, err)
	<-server.Done()
	_, err = seat.Server()
	require.ErrorAs(t, err, &Hopeless{})
	require.Equal(t, 1, seat.Started())
}
