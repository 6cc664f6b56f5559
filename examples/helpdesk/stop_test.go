package main

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// After SIGTERM no call is accepted, and the running call is answered.
func testStops(t *testing.T, d *desk) {
	i := d.start(t)
	release := d.hold(t, lockBilling)
	call := i.begin(t, http.MethodPost, "/tickets", "k1", fire)
	d.held(t)
	i.stopsAround(t, call, http.StatusCreated, release)
	require.Equal(t, 1, d.count(t, `SELECT count(*) FROM tickets`))
}

// A running import is finished too.
func testStopsImport(t *testing.T, d *desk) {
	i := d.start(t)
	release := d.hold(t, lockBilling)
	call := i.begin(t, http.MethodPut, "/imports/monday", "", importFile(t, 450))
	d.held(t)
	i.stopsAround(t, call, http.StatusOK, release)
	require.Equal(t, 450, d.count(t, `SELECT count(*) FROM tickets`))
}

// stopsAround stops the service while a call is held.
func (i *instance) stopsAround(t *testing.T, call <-chan sent, status int, release func()) {
	t.Helper()
	i.terminate(t)
	i.logged(t, "draining")
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", i.addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}, limit, 2*time.Millisecond, "it accepts connections")
	release()
	got := wait(t, call)
	require.NoError(t, got.err)
	require.Equal(t, status, got.answer.status, got.answer.body)
	i.logged(t, "stopped")
	require.Equal(t, 0, i.ended(t))
}

// Instances that start on an empty database together migrate it once.
func testStartsTogether(t *testing.T, d *desk) {
	const tokens = "HELPDESK_TOKENS=t0ken=acme"
	instances := []*instance{d.launch(t, tokens), d.launch(t, tokens), d.launch(t, tokens)}
	for _, i := range instances {
		i.logged(t, "listening")
		i.terminate(t)
		require.Equal(t, 0, i.ended(t))
	}
}

func testTokensAreMissing(t *testing.T, d *desk) {
	i := d.launch(t, "HELPDESK_TOKENS=")
	require.Contains(t, i.logged(t, "failed")["error"], "HELPDESK_TOKENS")
	require.Equal(t, 1, i.ended(t))
}
